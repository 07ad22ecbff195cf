// What a person has chosen for this browser.

const PREFIX = "banksman.set.";

export function setting(name: string): string {
  try {
    return localStorage.getItem(PREFIX + name) ?? "";
  } catch {
    return ""; // a page without storage
  }
}

export function keepSetting(name: string, value: string): void {
  try {
    if (value === "") localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, value);
  } catch {
    // it then lasts until the reload
  }
}
