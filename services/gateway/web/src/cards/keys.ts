// Single keys decide only with focus inside the card, outside text fields, and
// after a pause: whoever is typing when a card arrives decides nothing.
import { type FocusEvent, type KeyboardEvent, useRef } from "react";
import { store, stored } from "../store/settings";
import { rootOf } from "../ui/place";

/** Quiet time after the card got focus and after each key, in milliseconds. */
export const KEY_PAUSE = 400;

const MODIFIERS = ["Control", "Meta", "Shift", "Alt"];

export interface CardKeys {
  /** By key: "y", "n", "r", "e"; digits get their number. */
  [key: string]: (() => void) | undefined;
}

const SETTING = "banksman.keys";

export function keysOn(): boolean {
  return stored(SETTING) !== "off";
}

export function setKeysOn(on: boolean): void {
  store(SETTING, on ? "" : "off");
}

export function isTextField(t: EventTarget | null): boolean {
  if (!(t instanceof HTMLElement)) return false;
  if (t.isContentEditable || t instanceof HTMLTextAreaElement || t instanceof HTMLSelectElement) return true;
  return t instanceof HTMLInputElement && !["radio", "checkbox", "button", "submit", "file"].includes(t.type);
}

export function useCardKeys(keys: () => CardKeys) {
  const quietUntil = useRef(Number.POSITIVE_INFINITY);
  return {
    onFocus(e: FocusEvent<HTMLElement>) {
      if (e.relatedTarget instanceof Node && e.currentTarget.contains(e.relatedTarget) && quietUntil.current !== Number.POSITIVE_INFINITY) return;
      quietUntil.current = performance.now() + KEY_PAUSE;
    },
    onBlur(e: FocusEvent<HTMLElement>) {
      if (!(e.relatedTarget instanceof Node) || !e.currentTarget.contains(e.relatedTarget)) quietUntil.current = Number.POSITIVE_INFINITY;
    },
    onKeyDown(e: KeyboardEvent<HTMLElement>) {
      // Pressed on the way to another key, they mean nothing yet.
      if (MODIFIERS.includes(e.key)) return;
      const now = performance.now();
      const quiet = now < quietUntil.current;
      quietUntil.current = now + KEY_PAUSE;
      if (e.defaultPrevented || e.nativeEvent.isComposing || e.repeat) return;
      if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) {
        if (quiet && !isTextField(e.target)) return;
        const submit = keys()["submit"];
        if (submit) {
          e.preventDefault();
          submit();
        }
        return;
      }
      if (e.ctrlKey || e.metaKey || e.altKey || isTextField(e.target) || !keysOn()) return;
      if (e.key === "j" || e.key === "k") {
        e.preventDefault();
        moveFocus(e.currentTarget, e.key === "j" ? 1 : -1);
        return;
      }
      if (quiet) return;
      const act = keys()[e.key];
      if (act) {
        e.preventDefault();
        act();
      }
    },
  };
}

function moveFocus(from: HTMLElement, step: number): void {
  const cards = [...rootOf(from).querySelectorAll<HTMLElement>("article[data-card]")];
  const next = cards[cards.findIndex((c) => c === from || from.contains(c)) + step];
  next?.focus();
}
