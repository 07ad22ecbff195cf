// Files beside words that are not sent yet survive a reload, as the words do. They
// are too large for the storage that the words are in.
import { useEffect, useState } from "react";
import type { Attachment } from "@banksman/client";

const DATABASE = "banksman";
const FILES = "files";
/** Of so many messages the files are kept; the oldest go first. One message has 1.4 MB at most. */
export const MOST = 20;
const MAX_AGE = 30 * 24 * 3600 * 1000; // ms

interface Kept {
  at: number;
  list: Attachment[];
}

function open(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const r = indexedDB.open(DATABASE, 1); // throws where a page has none
    r.onupgradeneeded = () => void r.result.createObjectStore(FILES);
    r.onsuccess = () => resolve(r.result);
    r.onerror = () => reject(r.error ?? new Error("no storage for files"));
    r.onblocked = () => reject(new Error("the storage for files is busy"));
  });
}

/** One transaction; what run returns is the request whose result is wanted. */
async function within<T>(mode: IDBTransactionMode, run: (s: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const db = await open();
  try {
    return await new Promise<T>((resolve, reject) => {
      const t = db.transaction(FILES, mode);
      const r = run(t.objectStore(FILES));
      t.oncomplete = () => resolve(r.result);
      t.onerror = t.onabort = () => reject(t.error ?? new Error("files could not be kept"));
    });
  } finally {
    db.close();
  }
}

export async function loadFiles(key: string): Promise<Attachment[]> {
  const kept = await within<Kept | undefined>("readonly", (s) => s.get(key) as IDBRequest<Kept | undefined>);
  return kept && Date.now() - kept.at < MAX_AGE ? kept.list : [];
}

export async function saveFiles(key: string, list: Attachment[]): Promise<void> {
  await within("readwrite", (s) => {
    const r: IDBRequest = list.length === 0 ? s.delete(key) : s.put({ at: Date.now(), list } satisfies Kept, key);
    const others: { key: IDBValidKey; at: number }[] = [];
    const c = s.openCursor();
    c.onsuccess = () => {
      const at = c.result;
      if (at) {
        if (at.key !== key) others.push({ key: at.key, at: (at.value as Kept).at });
        at.continue();
        return;
      }
      others.sort((a, b) => b.at - a.at);
      others.forEach((o, i) => { if (i >= MOST - 1 || Date.now() - o.at > MAX_AGE) s.delete(o.key); });
    };
    return r;
  });
}

/** The files of this person's draft; of nobody's before it is known who. ready: those of before the reload are here; kept: these will be here after the next. */
export function useFiles(draft: string, owner: string): { files: Attachment[]; setFiles: (list: Attachment[]) => void; ready: boolean; kept: boolean } {
  const key = owner === "" ? "" : owner + draft;
  const [files, setList] = useState<Attachment[]>([]);
  const [ready, setReady] = useState(false);
  const [kept, setKept] = useState(true);
  useEffect(() => {
    setReady(false);
    setList([]);
    if (key === "") return;
    let gone = false;
    loadFiles(key).catch(() => []).then((list) => {
      if (gone) return;
      setList(list);
      setReady(true);
    }, () => undefined);
    return () => { gone = true; };
  }, [key]);
  const setFiles = (list: Attachment[]) => {
    setList(list);
    saveFiles(key, list).then(() => setKept(true), () => {
      setKept(list.length === 0);
      // Fewer than were chosen would be sent unnoticed after a reload.
      saveFiles(key, []).catch(() => undefined);
    });
  };
  return { files, setFiles, ready, kept };
}
