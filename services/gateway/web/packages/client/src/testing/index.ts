// Frames and a gateway in memory, for the tests of whoever uses the client.
export * from "./fixtures.ts";
export { MemoryGateway } from "./memory.ts";
