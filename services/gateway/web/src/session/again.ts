import type { Draft, Session } from "@banksman/client";
import type { App } from "../store/app";

/** The form of a new session, half filled. */
export const DRAFT = "new-session";

const startedKey = (session: string) => `started:${session}`;

/** What the form is filled with. */
export interface Wish {
  prompt: string;
  cwd: string;
  mode: string;
  runtime: string;
}

export function wishOf(draft: Draft): Wish {
  const field = (name: string) => {
    const v = draft.fields?.[name];
    return typeof v === "string" ? v : "";
  };
  return { prompt: draft.text ?? "", cwd: field("cwd"), mode: field("mode"), runtime: field("runtime") };
}

export function draftOf(w: Wish): Draft {
  return { text: w.prompt, fields: { cwd: w.cwd, mode: w.mode, runtime: w.runtime } };
}

/** Remembers what a session was started with: if it never runs, nobody else has the prompt. */
export function noteStarted(app: App, session: string, w: Wish): void {
  app.drafts.save(startedKey(session), draftOf(w));
}

/** Whether this browser asked for the session. */
export function isStarted(app: App, session: string): boolean {
  return app.drafts.load(startedKey(session)).fields !== undefined;
}

/** Opens the form as it was for that session; what somebody has begun to write there stays. */
export function startAgain(app: App, session: string, s: Session | undefined, withPrompt: boolean): void {
  const started = wishOf(app.drafts.load(startedKey(session)));
  const begun = wishOf(app.drafts.load(DRAFT)).prompt;
  app.drafts.save(DRAFT, draftOf({
    prompt: begun !== "" ? begun : withPrompt ? started.prompt : "",
    cwd: s?.cwd || started.cwd, mode: s?.mode || started.mode, runtime: s?.runtime || started.runtime,
  }));
  location.hash = "#/new";
}
