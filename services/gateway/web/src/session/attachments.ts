import type { Attachment } from "@banksman/client";

/** Raw bytes of all attachments of a message; base64 and the rest must fit a 2 MiB frame. */
export const MAX_BYTES = 1_400_000;
export const ACCEPT = "image/png,image/jpeg,image/gif,image/webp,application/pdf,text/plain,text/markdown,.md,.txt";

export async function readFiles(files: File[], already: number): Promise<{ attachments: Attachment[]; problem: string }> {
  let total = already;
  const attachments: Attachment[] = [];
  for (const f of files) {
    total += f.size;
    if (total > MAX_BYTES) return { attachments, problem: `${f.name} does not fit: all attachments together may have ${size(MAX_BYTES)}.` };
    const data = await base64(f);
    const media = f.type || "text/plain";
    attachments.push({ kind: media.startsWith("image/") ? "image" : "document", media_type: media, name: f.name, data_b64: data });
  }
  return { attachments, problem: "" };
}

/** "0.3 MB" */
export function size(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

export function bytesOf(list: Attachment[]): number {
  return list.reduce((n, a) => n + Math.floor((a.data_b64.length * 3) / 4), 0);
}

function base64(f: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const r = new FileReader();
    r.onerror = () => reject(r.error ?? new Error("unreadable file"));
    r.onload = () => resolve(String(r.result).replace(/^[^,]*,/, ""));
    r.readAsDataURL(f);
  });
}
