// Where a part of the page stands: in the document, or in the shadow root of an
// element that another page embeds.

export function rootOf(el: Element | null): Document | ShadowRoot {
  const root = el?.getRootNode();
  return root instanceof ShadowRoot || root instanceof Document ? root : document;
}

/** What has the focus there. */
export function focusedIn(el: Element | null): Element | null {
  return rootOf(el).activeElement;
}
