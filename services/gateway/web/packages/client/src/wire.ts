// What travels between page and gateway: the generated types, and some of them
// in the looser form that the app builds and reads them in.
export * from "./wire.gen.ts";
import type * as wire from "./wire.gen.ts";

export type InFrame = Exclude<wire.ServerFrame, wire.Events> | Events;

export type ClientType = wire.ClientFrame["type"];

type Keys<U> = U extends unknown ? keyof U : never;
type Value<U, K extends PropertyKey> = U extends { [P in K]?: infer V } ? V : never;

/** A client's frame before it is known to have what its type needs. */
export type ClientFrame = { type: ClientType } & {
  [K in Exclude<Keys<wire.ClientFrame>, "type">]?: Value<wire.ClientFrame, K>;
};

/** A step of a session of any type, also of one that is not known yet. */
export interface Event {
  type: string;
  at: wire.Time;
  /** Absent in what is live only. */
  cursor?: string;
  data: unknown;
}

export type Events = Omit<wire.Events, "events"> & { events: Event[] | null };

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
  note?: string;
  generation?: number;
  attachments?: unknown;
  blocks?: unknown;
  parent_tool_call_id?: string;
  at?: string;
  decision?: unknown;
}
