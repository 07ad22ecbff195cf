import type { Decision, Field } from "./wire.ts";

/** The gateway answered, and not with success. */
export class GatewayError extends Error {
  override readonly name = "GatewayError";
  constructor(
    /** HTTP status, 0 where the host is not reached over HTTP. */
    readonly status: number,
    /** The stable word of the error, for example not_found. */
    readonly code: string,
    message: string,
    readonly fields: readonly Field[] = [],
    readonly decision?: Decision,
  ) {
    super(message);
  }
}

/** Nothing was sent: there is no connection. */
export class NotConnectedError extends Error {
  override readonly name = "NotConnectedError";
  constructor() {
    super("There is no connection to the gateway.");
  }
}

/**
 * No word came in time. What was sent may have been stored: sending the same
 * again is safe and counts once.
 */
export class NoWordError extends Error {
  override readonly name = "NoWordError";
  constructor(readonly ref: string) {
    super("The gateway has not answered yet. It is safe to send the same again.");
  }
}

/** Another answer to the same interaction still waits for its receipt. */
export class BusyError extends Error {
  override readonly name = "BusyError";
  constructor(readonly key: string) {
    super("Another answer to this request is on its way.");
  }
}

/** This client knows no such interaction; load it first. */
export class UnknownInteractionError extends Error {
  override readonly name = "UnknownInteractionError";
  constructor(readonly key: string) {
    super(`No interaction ${key} is known here.`);
  }
}
