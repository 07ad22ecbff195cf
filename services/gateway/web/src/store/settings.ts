// What a person has chosen for this browser. What the storage does not take lasts
// as long as the page.

const PREFIX = "banksman.set.";

const here = new Map<string, string>();

export function stored(key: string): string {
  const h = here.get(key);
  if (h !== undefined) return h;
  try {
    return localStorage.getItem(key) ?? "";
  } catch {
    return ""; // a page without storage
  }
}

export function store(key: string, value: string): void {
  here.delete(key);
  try {
    if (value === "") localStorage.removeItem(key);
    else localStorage.setItem(key, value);
  } catch {
    here.set(key, value);
  }
}

export function setting(name: string): string {
  return stored(PREFIX + name);
}

export function keepSetting(name: string, value: string): void {
  store(PREFIX + name, value);
}
