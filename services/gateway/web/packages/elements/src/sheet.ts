import css from "./style.css?inline";

let sheet: CSSStyleSheet | undefined;

/** The styles of the cards, parsed once for all elements. */
export function styles(): CSSStyleSheet {
  if (sheet) return sheet;
  sheet = new CSSStyleSheet();
  sheet.replaceSync(css);
  // Rules for custom properties count in a document only, not in a shadow root.
  for (const rule of sheet.cssRules) {
    if (!(rule instanceof CSSPropertyRule)) continue;
    try {
      CSS.registerProperty({ name: rule.name, syntax: rule.syntax, inherits: rule.inherits, initialValue: rule.initialValue ?? undefined });
    } catch {
      // the page has the same one
    }
  }
  return sheet;
}
