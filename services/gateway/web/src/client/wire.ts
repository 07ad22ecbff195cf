// What travels between page and gateway: the generated frames, and the few
// that are not records of their own.
export * from "./wire.gen";
import type { ServerFrame } from "./wire.gen";

/** A terminal asks to sign in as this person. */
export interface CliLogin {
  type: "cli_login";
  code: string;
  name: string;
}

/** That request was answered or ran out, here or elsewhere. */
export interface CliLoginSettled {
  type: "cli_login_settled";
  code: string;
}

/** Somebody signed in with this person's rights. */
export interface SignedIn {
  type: "signed_in";
  name: string;
  via: string;
  at: string;
}

export type InFrame = ServerFrame | CliLogin | CliLoginSettled | SignedIn;

/** Data of a session's events, by type; every text is display text. */
export interface EventData {
  block_id?: string;
  text?: string;
  role?: string;
  tool_call_id?: string;
  tool_name?: string;
  input?: unknown;
  content?: unknown;
  is_error?: boolean;
  message?: string;
  reason?: string;
  state?: string;
  interaction_id?: string;
  request_id?: string;
  key?: string;
  headline?: string;
  title?: string;
  kind?: string;
  pending?: boolean;
  stage?: string;
  detail?: string;
  at?: string;
  decision?: unknown;
}
