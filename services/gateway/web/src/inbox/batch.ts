// Many requests decided with one press. Each goes the way of a single answer,
// with its own digest and its own receipt; what fails is left as it was.
import { BusyError, type Client, NotConnectedError, NoWordError, type Say } from "@banksman/client";

const AT_ONCE = 8; // answers on their way

/** A request as it was listed on the sheet. */
export interface Listed {
  key: string;
  digest: string;
}

/** What became of one: done, or why not. */
export interface Fate {
  done: boolean;
  words: string;
}

export async function decideAll(client: Client, list: readonly Listed[], say: Say, tell: (key: string, f: Fate) => void): Promise<void> {
  const rest = [...list];
  const work = async () => {
    for (let one = rest.shift(); one; one = rest.shift()) tell(one.key, await decideOne(client, one, say));
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, list.length) }, work));
}

async function decideOne(client: Client, one: Listed, say: Say): Promise<Fate> {
  const item = client.item(one.key);
  if (!item) return no("It is not known here any more.");
  if (item.closed) return no("It was settled meanwhile.");
  if (item.summary.digest !== one.digest) return no("It is not the one that was listed. Look at it again.");
  try {
    const r = await client.decide(one.key, say);
    switch (r.status) {
      case "accepted":
      case "duplicate":
        return { done: true, words: say.decision === "allow" ? "Approved once" : "Denied" };
      case "already_decided": {
        const who = r.decision?.principal.name || r.decision?.principal.id || "Somebody";
        return no(`${who} was first${r.decision ? `: ${r.decision.outcome}` : ""}.`);
      }
      case "expired": return no("It had expired.");
      case "forbidden": return no(`You may not decide it${r.error ? `: ${r.error}` : "."}`);
      default: return no(r.error ? `Not taken: ${r.error}` : "Not taken.");
    }
  } catch (e) {
    if (e instanceof NoWordError) return no("No word from the server yet. You can send it again: it counts only once.");
    if (e instanceof NotConnectedError) return no("Not sent: there is no connection.");
    if (e instanceof BusyError) return no("Another answer to it is on its way.");
    return no(e instanceof Error ? e.message : String(e));
  }
}

function no(words: string): Fate {
  return { done: false, words };
}
