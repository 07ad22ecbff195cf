// The client of a Banksman gateway. It knows no framework and no page.
export { Client, type ClientEvents, type ClientOptions, type Command, COMMAND_LIMIT, resumeWithPage, type Say, UNSURE_AFTER } from "./client.ts";
export { type CommandFrame, type DecideFrame, DirectTransport, type Host } from "./direct.ts";
export { type AnswerDraft, beginsOpen, type Draft, Drafts, draftText, type KeyValue, memoryStorage, pageStorage, type Said, shutting, type Shuttable, unsent } from "./drafts.ts";
export { BusyError, GatewayError, NotConnectedError, NoWordError, UnknownInteractionError } from "./errors.ts";
export { type CliLoginRequest, type DecisionPage, type DecisionSearch, Gateway, type GatewayOptions } from "./http.ts";
export { type HttpOptions, HttpTransport } from "./httpsse.ts";
export { Presence, TELL_EVERY, UNATTENDED } from "./presence.ts";
export { type Action, reduce } from "./reducer.ts";
export { type SocketOptions, WebSocketTransport } from "./socket.ts";
export * from "./state.ts";
export { createStore, type Store } from "./store.ts";
export { backoff, clockOffset, newId } from "./timing.ts";
export { LoginToken, takeLoginToken } from "./token.ts";
export type { Call, ConnStatus, Handlers, Transport } from "./transport.ts";
export * from "./wire.ts";
