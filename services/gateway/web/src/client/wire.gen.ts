// Code generated from the Go package wire by web/gen. DO NOT EDIT.

/** RFC 3339 in UTC, by the server's clock. */
export type Time = string;

export interface Hello {
  type: "hello";
  protocol: number;
  cursor: string;
  server_time: Time;
  principal: Principal;
  recovered: boolean;
  runtimes: string[] | null;
  default_cwd?: string;
}

export interface ActiveProcesses {
  type: "active_processes";
  cursor: string;
  sessions: ProcessState[] | null;
  more: boolean;
}

export interface ProcessState {
  type?: "process_state";
  cursor?: string;
  session_key: string;
  v: number;
  session_id: string;
  project_id?: string;
  tenant: string;
  owner: string;
  worker: string;
  generation: number;
  runtime: string;
  title?: string;
  cwd?: string;
  state: string;
  started_at: Time;
  state_changed_at: Time;
  mode?: string;
  model?: string;
  memory?: number;
  error?: string;
  kill_reason?: string;
  unreachable?: boolean;
  pending_count: number;
  pending_requests: Summary[] | null;
  pending_request?: Summary;
  closed?: Closed[];
}

export interface Events {
  type: "event";
  session_id: string;
  session_key: string;
  cursor: string;
  events: Event[] | null;
  reset?: boolean;
  more?: boolean;
}

export interface Delivery {
  type: "delivery";
  cursor: string;
  request_id: string;
  key: string;
  session_key: string;
  v: number;
  stage: string;
  decision_id: string;
  at: Time;
  detail?: string;
}

export interface Receipt {
  type?: "receipt";
  ref?: string;
  request_id?: string;
  session_id?: string;
  status: Status;
  error?: string;
  fields?: Field[];
  decision?: Decision;
}

export interface Ping {
  type: "ping";
  server_time: Time;
}

export interface Interaction {
  id: string;
  request_id: string;
  key: string;
  request_type: string;
  kind: string;
  presentation: string;
  session_id: string;
  session_key: string;
  tenant: string;
  owner: string;
  project_id?: string;
  agent_name?: string;
  tool_name?: string;
  tool_call_id?: string;
  headline: string;
  title: string;
  tool_input?: string;
  cut?: boolean;
  digest: string;
  risk: string;
  risk_reason?: string;
  created_at: Time;
  attention_at?: Time;
  expires_at?: Time;
  server_time: Time;
  attempt?: number;
  unreachable?: boolean;
  body?: Body;
  state: string;
  outcome?: Outcome;
  decision?: Decision;
  trail?: Ack[];
}

export interface Error {
  code: string;
  error: string;
  fields?: Field[];
  decision?: Decision;
}

export interface Answer {
  question_id: string;
  values: string[] | null;
  other?: string;
  notes?: string;
}

export interface Client {
  type: string;
  token?: string;
  cursor?: string;
  from?: string;
  ref?: string;
  session_id?: string;
  request_id?: string;
  tool_call_id?: string;
  request_type?: string;
  digest?: string;
  decision?: string;
  option_id?: string;
  answers?: unknown;
  content?: unknown;
  action?: string;
  message?: string;
  comment?: string;
  updated_input?: unknown;
  scope?: string;
  interrupt?: boolean;
  command_id?: string;
  text?: string;
  attachments?: Attachment[];
  prompt?: string;
  cwd?: string;
  mode?: string;
  model?: string;
  runtime?: string;
  project_id?: string;
  tenant?: string;
  pool?: string;
}

export interface Principal {
  kind: string;
  id: string;
  name?: string;
}

export interface Summary {
  request_id: string;
  key: string;
  request_type: string;
  kind: string;
  presentation: string;
  session_id: string;
  session_key: string;
  tenant: string;
  owner: string;
  project_id?: string;
  agent_name?: string;
  tool_name?: string;
  tool_call_id?: string;
  headline: string;
  title: string;
  tool_input?: string;
  cut?: boolean;
  digest: string;
  risk: string;
  risk_reason?: string;
  created_at: Time;
  attention_at?: Time;
  expires_at?: Time;
  server_time: Time;
  attempt?: number;
  unreachable?: boolean;
  body?: Body;
}

export interface Closed {
  request_id: string;
  key: string;
  request_type: string;
  kind: string;
  presentation: string;
  session_id: string;
  session_key: string;
  tenant: string;
  owner: string;
  project_id?: string;
  agent_name?: string;
  tool_name?: string;
  tool_call_id?: string;
  headline: string;
  title: string;
  tool_input?: string;
  cut?: boolean;
  digest: string;
  risk: string;
  risk_reason?: string;
  created_at: Time;
  attention_at?: Time;
  expires_at?: Time;
  server_time: Time;
  attempt?: number;
  unreachable?: boolean;
  body?: Body;
  state: string;
  outcome: Outcome;
  decision?: Decision;
  trail?: Ack[];
}

export interface Event {
  type: string;
  at: Time;
  cursor?: string;
  data: unknown;
}

export type Status = "accepted" | "duplicate" | "already_decided" | "expired" | "not_found" | "invalid" | "forbidden" | "digest_mismatch" | "unavailable";

export interface Field {
  field: string;
  problem: string;
}

export interface Decision {
  v: number;
  decision_id: string;
  interaction_id: string;
  digest: string;
  outcome: Outcome;
  option_id?: string;
  updated_input?: unknown;
  answers?: Answer[];
  content?: unknown;
  scope?: string;
  rule?: string;
  message?: string;
  comment?: string;
  interrupt?: boolean;
  fields?: Field[];
  principal: Principal;
  channel: string;
  assurance?: string;
  policy: Policy;
  decided_at: Time;
  request_seq: number;
  requested_at: Time;
  request_b64?: string;
}

export interface Body {
  blocks?: Block[];
  questions?: Question[];
  schema?: string;
  message?: string;
  reason?: string;
  cwd?: string;
  options?: AgentOption[];
  verbs: string[] | null;
  scopes: string[] | null;
  input?: string;
}

export type Outcome = "allowed" | "denied" | "answered" | "clarify" | "dismissed" | "expired" | "cancelled" | "orphaned" | "invalid";

export interface Ack {
  v: number;
  stage: string;
  decision_id: string;
  at: Time;
  detail?: string;
}

export interface Attachment {
  kind: string;
  media_type: string;
  name?: string;
  data_b64: string;
}

export interface Policy {
  version: string;
  risk: string;
  audience?: string;
}

export interface Block {
  label: string;
  form: string;
  text?: string;
  old?: string;
  new?: string;
  lines?: number;
  hidden?: number;
  pushed?: boolean;
}

export interface Question {
  id: string;
  header?: string;
  question: string;
  options: Option[] | null;
  multi_select: boolean;
  allow_other: boolean;
  free_text_exclusive?: boolean;
  required: boolean;
}

export interface AgentOption {
  option_id: string;
  name: string;
  kind?: string;
  scope?: string;
  effect: string;
}

export interface Option {
  value: string;
  label: string;
  description?: string;
  preview?: string;
}

export type ServerFrame = Hello | ActiveProcesses | ProcessState | Events | Delivery | Receipt | Ping;

export type ClientType = "auth" | "subscribe" | "unsubscribe" | "pending_request_response" | "send_message" | "start_session" | "interrupt" | "stop_session" | "set_mode" | "pong";

export type ClientFrame = Omit<Client, "type"> & { type: ClientType };

export const PROTOCOL = 1;
export const CLOSE_SLOW = 3000;
export const CLOSE_RESTART = 3001;
export const CLOSE_STALE = 3002;
export const CLOSE_BAD_AUTH = 3500;
export const CLOSE_BAD_FRAME = 3501;
export const CLOSE_TOO_MANY = 3502;
export const CLOSE_NO_AUTH = 3503;
export const CLOSE_RECONNECT_MAX = 3499;
