// Code generated from the documents of internal/contract by generate.mjs. DO NOT EDIT.

/**
 * RFC 3339 in UTC, by the server's clock.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Time".
 */
export type Time = string;
/**
 * Outcome is how an interaction ended. The nine are never merged.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Outcome".
 */
export type Outcome =
  "allowed" | "denied" | "answered" | "clarify" | "dismissed" | "expired" | "cancelled" | "orphaned" | "invalid";
/**
 * A list, or a map by question id, index or text. A text is one option's value or label, free text, or, where several may be chosen, labels joined by ", " or a JSON list.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Answers".
 */
export type Answers =
  | ListedAnswer[]
  | {
      [k: string]: string | string[] | AnswerParts;
    };
/**
 * Duration travels as a Go duration string, for example "90s" or "10m".
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Duration".
 */
export type Duration = string;
/**
 * Status is the word of a receipt.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Status".
 */
export type Status =
  | "accepted"
  | "duplicate"
  | "already_decided"
  | "expired"
  | "not_found"
  | "invalid"
  | "forbidden"
  | "digest_mismatch"
  | "unavailable";
/**
 * Event is one step; data by type as listed in package hitl, with tool input as display text.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Event".
 */
export type Event =
  | TextDeltaEvent
  | TextEvent
  | ToolCallStartEvent
  | ToolCallDeltaEvent
  | ToolCallEndEvent
  | ToolResultEvent
  | ErrorEvent
  | DoneEvent
  | SessionStatusEvent
  | InteractionPendingEvent
  | InteractionRequestEvent
  | ApprovalRequiredEvent
  | QuestionPromptEvent
  | InteractionResponseEvent;
/**
 * A frame that a client sends, one in a message.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "ClientFrame".
 */
export type ClientFrame =
  | Auth
  | Subscribe
  | Unsubscribe
  | PendingRequestResponse
  | StartSession
  | SendMessage
  | Interrupt
  | StopSession
  | SetMode
  | Seen
  | Pong;
/**
 * A frame that a gateway sends.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "ServerFrame".
 */
export type ServerFrame =
  | Hello
  | ActiveProcesses
  | ProcessState
  | Events
  | Delivery
  | Receipt
  | Ping
  | SignedIn
  | CLILogin
  | CLILoginSettled
  | RulesChanged;
/**
 * A message of a gateway: one frame, or several.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "ServerMessage".
 */
export type ServerMessage = ServerFrame | ServerFrame[];

export interface Wire {}
/**
 * APIToken is a token for a program, without its secret.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "APIToken".
 */
export interface APIToken {
  id: string;
  name: string;
  roles: null | Grant[];
  /**
   * whose requests it does not decide
   */
  owner?: string;
  created: Time;
  created_by: string;
  expires_at: Time;
  revoked_at?: Time;
  last_used?: Time;
}
/**
 * Grant is a role and the projects it is held for.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Grant".
 */
export interface Grant {
  role: string;
  /**
   * ids, or AllProjects
   */
  projects: null | string[];
  /**
   * tenants are those that it holds in; absent: in all of them.
   */
  tenants?: string[];
}
/**
 * APITokenList are all tokens, newest first.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "APITokenList".
 */
export interface APITokenList {
  tokens: null | APIToken[];
}
/**
 * Ack is the asker's receipt for a decision.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Ack".
 */
export interface Ack {
  v: number;
  stage: string;
  decision_id: string;
  at: Time;
  detail?: string;
}
/**
 * ActiveProcesses is one page of the snapshot; the last has more false. Until then a client must not say that nothing waits.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "ActiveProcesses".
 */
export interface ActiveProcesses {
  type: "active_processes";
  cursor: string;
  sessions: null | ProcessState[];
  more: boolean;
}
/**
 * ProcessState is a session with what waits in it. Sent whole after every change: absence of a pending request clears it everywhere.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "ProcessState".
 */
export interface ProcessState {
  type?: "process_state";
  cursor?: string;
  /**
   * session_key is unique over tenants and owners; SessionID is the asker's own name for it.
   */
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
  /**
   * bytes
   */
  memory?: number;
  error?: string;
  kill_reason?: string;
  /**
   * unreachable says that the worker misses its heartbeats; answers are still taken.
   */
  unreachable?: boolean;
  /**
   * pending_requests are what waits, oldest first, at most MaxPending of pending_count: where more wait, those between the oldest and the newest are left out. pending_request is the first of them.
   */
  pending_count: number;
  pending_requests: null | Summary[];
  pending_request?: Summary;
  /**
   * closed are the interactions that this change ended.
   */
  closed?: Closed[];
}
/**
 * Summary is an interaction in a list. It stays under 2 KiB without body.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Summary".
 */
export interface Summary {
  request_id: string;
  /**
   * unique over tenants and owners
   */
  key: string;
  request_type: string;
  kind: string;
  /**
   * tool or questionnaire
   */
  presentation: string;
  session_id: string;
  session_key: string;
  tenant: string;
  owner: string;
  project_id?: string;
  agent_name?: string;
  tool_name?: string;
  tool_call_id?: string;
  /**
   * made from data by the server
   */
  headline: string;
  /**
   * the agent's own words
   */
  title: string;
  tool_input?: string;
  /**
   * tool_input is not whole: fetch the body before deciding
   */
  cut?: boolean;
  digest: string;
  risk: string;
  risk_reason?: string;
  /**
   * a part of it cannot be undone
   */
  irreversible?: boolean;
  created_at: Time;
  attention_at?: Time;
  expires_at?: Time;
  server_time: Time;
  /**
   * above 1: asked again
   */
  attempt?: number;
  unreachable?: boolean;
  body?: Body;
}
/**
 * Body is what a person must see of an interaction before deciding: display text only, nothing for a browser to parse.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Body".
 */
export interface Body {
  blocks?: Block[];
  questions?: Question[];
  /**
   * of a shell command, in the order they are written
   */
  parts?: Part[];
  /**
   * that are not listed; they count for the risk
   */
  more_parts?: number;
  /**
   * of a form, as text
   */
  schema?: string;
  /**
   * of a form, in their order
   */
  fields?: FormField[];
  message?: string;
  reason?: string;
  cwd?: string;
  options?: AgentOption[];
  /**
   * what may be answered
   */
  verbs: null | string[];
  /**
   * once, and session where the agent offers it
   */
  scopes: null | ("once" | "session")[];
  /**
   * what else the scope session lets through, a sentence each
   */
  grants?: string[];
  /**
   * the whole tool input as JSON text, for editing
   */
  input?: string;
  /**
   * an address that a person may open from here, by pressing it
   */
  link?: string;
  /**
   * shown is the digest of all that is shown of the interaction: this, the headline, the risk and the times. Whoever answers names it.
   */
  shown?: string;
}
/**
 * Block is one part of a request as people see it, ready to be shown as plain text. Every channel shows the same blocks.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Block".
 */
export interface Block {
  label: string;
  /**
   * form is command, text, path, content, diff, plan or json.
   */
  form: string;
  text?: string;
  /**
   * old and new are the two sides of a diff.
   */
  old?: string;
  new?: string;
  /**
   * lines counts the lines of text, or of new in a diff.
   */
  lines?: number;
  /**
   * added and removed count the lines that a diff changes.
   */
  added?: number;
  removed?: number;
  /**
   * hidden counts the characters that are shown as tokens.
   */
  hidden?: number;
  /**
   * pushed says that blanks or empty lines push a part out of sight.
   */
  pushed?: boolean;
}
/**
 * question is a question as browsers show it; every text is display text.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Question".
 */
export interface Question {
  id: string;
  header?: string;
  question: string;
  options: null | Option[];
  multi_select: boolean;
  allow_other: boolean;
  free_text_exclusive?: boolean;
  required: boolean;
}
/**
 * Option is a choice as browsers show it. value is sent back as it is.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Option".
 */
export interface Option {
  value: string;
  label: string;
  description?: string;
  preview?: string;
}
/**
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Part".
 */
export interface Part {
  text: string;
  joint: string;
  depth?: number;
  risk: string;
  risk_reason: string;
}
/**
 * FormField is a field of a form as browsers show it. What is filled in is sent under name, which alone is no display text. Numbers are text, verbatim.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "FormField".
 */
export interface FormField {
  name: string;
  label: string;
  description?: string;
  /**
   * type is string, number, integer, boolean or array, which is a choice of several.
   */
  type: string;
  format?: string;
  required: boolean;
  choices?: Choice[];
  minimum?: string;
  maximum?: string;
  min_length?: number;
  max_length?: number;
  /**
   * the default of the form, as JSON; nobody has chosen it
   */
  suggested?: string;
}
/**
 * Choice is a value that a field takes, as json, and its name for people.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Choice".
 */
export interface Choice {
  json: string;
  label: string;
}
/**
 * AgentOption is a choice of the agent's own, answered by its option_id.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "AgentOption".
 */
export interface AgentOption {
  option_id: string;
  name: string;
  kind?: string;
  scope?: string;
  /**
   * allow or deny
   */
  effect: string;
}
/**
 * Closed is an interaction that has its outcome.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Closed".
 */
export interface Closed {
  request_id: string;
  /**
   * unique over tenants and owners
   */
  key: string;
  request_type: string;
  kind: string;
  /**
   * tool or questionnaire
   */
  presentation: string;
  session_id: string;
  session_key: string;
  tenant: string;
  owner: string;
  project_id?: string;
  agent_name?: string;
  tool_name?: string;
  tool_call_id?: string;
  /**
   * made from data by the server
   */
  headline: string;
  /**
   * the agent's own words
   */
  title: string;
  tool_input?: string;
  /**
   * tool_input is not whole: fetch the body before deciding
   */
  cut?: boolean;
  digest: string;
  risk: string;
  risk_reason?: string;
  /**
   * a part of it cannot be undone
   */
  irreversible?: boolean;
  created_at: Time;
  attention_at?: Time;
  expires_at?: Time;
  server_time: Time;
  /**
   * above 1: asked again
   */
  attempt?: number;
  unreachable?: boolean;
  body?: Body;
  /**
   * closed
   */
  state: "closed";
  outcome: Outcome;
  decision?: Decision;
  trail?: Ack[];
}
/**
 * Decision is the one accepted answer, with the exact bytes of its request.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Decision".
 */
export interface Decision {
  v: number;
  decision_id: string;
  interaction_id: string;
  digest: string;
  outcome: Outcome;
  option_id?: string;
  updated_input?: unknown;
  answers?: Answer[];
  /**
   * once (default) or session
   */
  scope?: string;
  rule?: string;
  /**
   * for the agent
   */
  message?: string;
  /**
   * for the record only
   */
  comment?: string;
  interrupt?: boolean;
  /**
   * of an invalid request
   */
  fields?: Field[];
  principal: Principal;
  channel: string;
  /**
   * link, chat_account, session or step_up
   */
  assurance?: string;
  /**
   * address it came from, as the gateway saw it
   */
  from?: string;
  /**
   * digest of what was shown of the request, see package shown
   */
  shown?: string;
  card?: Card;
  policy: Policy;
  decided_at: Time;
  request_seq: number;
  requested_at: Time;
  request_b64?: string;
  content?: unknown;
}
/**
 * Answer is the answer to one question: chosen option values, free text, or both.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Answer".
 */
export interface Answer {
  question_id: string;
  values: null | string[];
  other?: string;
  notes?: string;
}
/**
 * field is one problem of an input, by the name of the field that has it.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Field".
 */
export interface Field {
  field: string;
  problem: string;
}
/**
 * Principal is who decided.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Principal".
 */
export interface Principal {
  /**
   * person, service, rule, system or asker
   */
  kind: string;
  id: string;
  name?: string;
}
/**
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Card".
 */
export interface Card {
  v: number;
  headline: string;
  risk: string;
  risk_reason?: string;
  irreversible?: boolean;
  parts?: Part[];
  more_parts?: number;
  verbs?: string[];
  scopes?: string[];
  grants?: string[];
  attention_at?: Time;
  expires_at?: Time;
  named?: boolean;
}
/**
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Policy".
 */
export interface Policy {
  version: string;
  risk: string;
  audience?: string;
  role?: string;
  edited?: string;
}
/**
 * AlertChannel is how the addresses of one kind of channel do, as the notifier that was asked knows it since its start.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "AlertChannel".
 */
export interface AlertChannel {
  /**
   * for example mail
   */
  type: string;
  /**
   * how many it tells
   */
  addresses: number;
  /**
   * of them: the last attempt failed
   */
  failing: number;
  /**
   * of them: the receiver wants nothing any more
   */
  gone: number;
  last_success?: Time;
}
/**
 * AlertClaim says that a recipient looks after an interaction: until then nobody else is told who was not told yet.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "AlertClaim".
 */
export interface AlertClaim {
  by: string;
  until: Time;
}
/**
 * AlertDelivery is one alert to one address.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "AlertDelivery".
 */
export interface AlertDelivery {
  /**
   * its occasion, for example step1, reminder or closed
   */
  step: string;
  /**
   * recipient/channel, or a channel alone
   */
  address: string;
  /**
   * channel_type is the kind of channel, for example mail, where that is known.
   */
  channel_type?: string;
  /**
   * state is planned, claimed (being sent), sent, retracted, failed (refused), dead (given up), or skipped (never to be sent).
   */
  state: string;
  due_at: Time;
  sent_at?: Time;
  tries: number;
  /**
   * said is what the provider said, problem what went wrong last or why nothing is sent, held why it was or is put off. Texts are for people.
   */
  said?: string;
  problem?: string;
  held?: string;
  /**
   * digest: it went out in one message with others.
   */
  digest?: boolean;
  /**
   * uncertain: it may have arrived without our knowing.
   */
  uncertain?: boolean;
}
/**
 * Alerts is what became, or will become, of the alerts about an interaction.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Alerts".
 */
export interface Alerts {
  /**
   * the interaction's
   */
  key: string;
  /**
   * notifier is answered, or silent where no notifier was there to ask: then nothing is known, and everything but key is empty.
   */
  notifier?: "answered" | "silent";
  planned_at?: Time;
  /**
   * route is the one it follows: absent without routes, "none" where none matches.
   */
  route?: string;
  outcome?: Outcome;
  over_at?: Time;
  claim?: AlertClaim;
  /**
   * deliveries are in the order of time.
   */
  deliveries: null | AlertDelivery[];
}
/**
 * An answer in parts: chosen values or labels, free text, or both.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "AnswerParts".
 */
export interface AnswerParts {
  values?: string[] | null;
  other?: string;
  notes?: string;
}
/**
 * An answer in parts that names its question.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "ListedAnswer".
 */
export interface ListedAnswer {
  question_id: string;
  values?: string[] | null;
  other?: string;
  notes?: string;
}
/**
 * Names what is answered, by request_id or tool_call_id.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "AnswersBody".
 */
export interface AnswersBody {
  answers: Answers;
  request_id?: string;
  tool_call_id?: string;
  /**
   * echoed in the receipt
   */
  ref?: string;
  session_id?: string;
  request_type?: string;
  digest?: string;
  message?: string;
  comment?: string;
}
/**
 * Names what is decided, by request_id or tool_call_id.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "ApprovalBody".
 */
export interface ApprovalBody {
  request_id?: string;
  tool_call_id?: string;
  /**
   * echoed in the receipt
   */
  ref?: string;
  session_id?: string;
  request_type?: string;
  digest?: string;
  /**
   * allow or deny
   */
  decision?: "allow" | "deny";
  message?: string;
  comment?: string;
}
/**
 * ApprovalData is the data of approval_required, the request in simple form.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "ApprovalData".
 */
export interface ApprovalData {
  tool_call_id: string;
  interaction_id: string;
  tool_name: string;
  /**
   * JSON text to show
   */
  input: string;
  /**
   * input is not whole
   */
  cut: boolean;
  project_id?: string;
}
/**
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "ApprovalRequiredEvent".
 */
export interface ApprovalRequiredEvent {
  type: "approval_required";
  at: Time;
  /**
   * empty for live deltas
   */
  cursor?: string;
  data: ApprovalData;
}
/**
 * What is asked. The gateway fills in v, id, tenant and owner.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "AskBody".
 */
export interface AskBody {
  key: string;
  kind: string;
  title: string;
  session_id?: string;
  project_id?: string;
  parent_session?: string;
  agent_name?: string;
  turn_id?: string;
  tool_call_id?: string;
  message?: string;
  reason?: string;
  risk?: string;
  tool?: Tool;
  questions?: RequestQuestion[];
  schema?: unknown;
  /**
   * object; what a kind of its own needs
   */
  data?: {
    [k: string]: unknown;
  };
  url?: string;
  options?: AgentOption[];
  suggestions?: unknown;
  allowed?: string[];
  audience?: string;
  expires_in?: Duration;
  attention_in?: Duration;
  source?: Source;
}
/**
 * Tool is the call that wants consent. input is kept byte for byte.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Tool".
 */
export interface Tool {
  name: string;
  display_name?: string;
  server?: string;
  kind?: string;
  input: unknown;
  input_schema?: unknown;
  description?: string;
  cwd?: string;
  paths?: string[];
  diff?: unknown;
  blocked_path?: string;
}
/**
 * question is one of the questions of a request of kind question.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "RequestQuestion".
 */
export interface RequestQuestion {
  /**
   * default: its index
   */
  id?: string;
  header?: string;
  question: string;
  options: null | RequestOption[];
  multi_select?: boolean;
  /**
   * default true
   */
  allow_other?: boolean;
  free_text_exclusive?: boolean;
  /**
   * default true
   */
  required?: boolean;
  /**
   * refused until sealed answers exist
   */
  secret?: boolean;
}
/**
 * Option is one choice. value defaults to label.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "RequestOption".
 */
export interface RequestOption {
  value?: string;
  label: string;
  description?: string;
  preview?: string;
}
/**
 * Source says which protocol a request came from and keeps its original.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Source".
 */
export interface Source {
  protocol?: string;
  version?: string;
  agent?: string;
  request_id?: string;
  raw_b64?: string;
}
/**
 * AskReply is the decision, or pending: then the caller repeats the call.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "AskReply".
 */
export interface AskReply {
  /**
   * decided or pending
   */
  status: "decided" | "pending";
  id: string;
  decision?: Decision;
}
/**
 * Attachment is an image or a document beside a prompt.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Attachment".
 */
export interface Attachment {
  /**
   * image or document
   */
  kind: "image" | "document";
  media_type: string;
  name?: string;
  data_b64: string;
}
/**
 * AttachmentData is an attachment as the conversation shows it.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "AttachmentData".
 */
export interface AttachmentData {
  /**
   * image or document
   */
  kind?: string | null;
  media_type?: string | null;
  name?: string | null;
}
/**
 * Audience is who may decide an interaction and who sees that it waits, by the roles that people have now. Whom alerts reach is not in it: the gateway does not know.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Audience".
 */
export interface Audience {
  deciders: null | Person[];
  /**
   * deciders that are not named
   */
  more?: number;
  /**
   * see that something waits, not what
   */
  viewers?: number;
  /**
   * tokens that may decide
   */
  programs?: number;
}
/**
 * Person is somebody in an Audience.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Person".
 */
export interface Person {
  id: string;
  name: string;
  you?: boolean;
}
/**
 * CLIAnswer is a person's word on a terminal.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "CLIAnswer".
 */
export interface CLIAnswer {
  /**
   * absent is no answer
   */
  allow: boolean;
}
/**
 * CLILogin tells of a terminal that waits to be confirmed.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "CLILogin".
 */
export interface CLILogin {
  type: "cli_login";
  code: string;
  /**
   * what the terminal calls itself
   */
  name: string;
  requested_at: Time;
  expires_at: Time;
}
/**
 * CLILoginSettled tells that this terminal was answered, or waited too long.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "CLILoginSettled".
 */
export interface CLILoginSettled {
  type: "cli_login_settled";
  code: string;
}
/**
 * CLIRequest is a terminal that wants to act for a person, and waits for a person who sees the same code there to say so.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "CLIRequest".
 */
export interface CLIRequest {
  code: string;
  /**
   * what the terminal calls itself
   */
  name: string;
  requested_at: Time;
  expires_at: Time;
}
/**
 * CLIRequests are the terminals that wait, oldest first.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "CLIRequests".
 */
export interface CLIRequests {
  requests: null | CLIRequest[];
}
/**
 * ceremony is a sign-in, or the like, that has begun. options are for the browser's credentials interface.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Ceremony".
 */
export interface Ceremony {
  ceremony: string;
  options?: unknown;
  /**
   * url is where the issuer's sign-in goes on.
   */
  url?: string;
}
/**
 * CeremonyEnd is what the browser's credentials interface, or the issuer, gave.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "CeremonyEnd".
 */
export interface CeremonyEnd {
  ceremony?: string;
  credential?: unknown;
  /**
   * invite is the token of an invitation link.
   */
  invite?: string;
  /**
   * state and code came back from the issuer.
   */
  state?: string;
  code?: string;
}
/**
 * ChangeRule changes what it names of a rule that is in force.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "ChangeRule".
 */
export interface ChangeRule {
  /**
   * version is the one that was read: another one in the meantime is a conflict.
   */
  version: number;
  /**
   * expires_in is in seconds from now.
   */
  expires_in?: number;
  /**
   * max_uses are all uses, those that were included; 0: as often as it matches.
   */
  max_uses?: number;
  match?: RuleWish;
  /**
   * apply are requests that wait and that the new version is to decide at once.
   */
  apply?: RuleTarget[];
}
/**
 * RuleWish says what a rule is to match: a request, and two choices of its preview.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "RuleWish".
 */
export interface RuleWish {
  /**
   * request_id and digest are those of a request that was shown; absent: of the one that the rule was made from.
   */
  request_id?: string;
  digest?: string;
  pattern: string;
  scope: string;
}
/**
 * RuleTarget is a request that waits, as it was shown.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "RuleTarget".
 */
export interface RuleTarget {
  request_id: string;
  digest: string;
}
/**
 * ChangeUser changes what it names. Whoever is changed has to sign in again.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "ChangeUser".
 */
export interface ChangeUser {
  name?: string;
  roles?: Grant[];
  disabled?: boolean;
  /**
   * forget_passkeys takes all passkeys away, of a device that was lost.
   */
  forget_passkeys?: boolean;
}
/**
 * ChangedRule is the reply to ChangeRule. applied has a receipt for each of apply.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "ChangedRule".
 */
export interface ChangedRule {
  id: string;
  /**
   * allow or deny
   */
  effect: string;
  /**
   * title names it in a few words, text says what it matches.
   */
  title: string;
  text: string;
  match: RuleMatch;
  maker: Principal;
  created_at: Time;
  expires_at: Time;
  /**
   * absent: as often as it matches
   */
  max_uses?: number;
  uses: number;
  last_used?: Time;
  revoked_at?: Time;
  revoked_by?: Principal;
  state: string;
  /**
   * version counts from 1 with changes, the oldest first: each says what was before.
   */
  version?: number;
  changes?: RuleChange[];
  /**
   * may_revoke says that whoever reads this may revoke it.
   */
  may_revoke?: boolean;
  /**
   * may_change says that whoever reads this made it and may change it, to last max_expires_in seconds from now at most.
   */
  may_change?: boolean;
  max_expires_in?: number;
  from?: RuleTarget;
  applied?: Receipt[];
}
/**
 * RuleMatch is what a request has to be for a rule to decide it. The gateway makes it from a request that somebody saw, and nobody else can.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "RuleMatch".
 */
export interface RuleMatch {
  scope: string;
  tenant: string;
  owner: string;
  project_id?: string;
  /**
   * of the scope session
   */
  session_key?: string;
  agent_name?: string;
  kind: string;
  tool: string;
  /**
   * MCP server
   */
  server?: string;
  pattern: string;
  /**
   * where a command runs
   */
  cwd?: string;
  /**
   * text is the command, or the canonical JSON of the input, of the pattern exact.
   */
  text?: string;
  /**
   * words are the program and what must follow it.
   */
  words?: string[];
  /**
   * rest is what else the input of a command says, as canonical JSON.
   */
  rest?: string;
  folder?: string;
  /**
   * max_risk is the risk of the request it was made from: what is riskier goes to people.
   */
  max_risk: string;
}
/**
 * RuleChange is what a version of a rule changed.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "RuleChange".
 */
export interface RuleChange {
  /**
   * that it made
   */
  version: number;
  at: Time;
  by: Principal;
  /**
   * in words
   */
  what: string;
  expires_at: Time;
  max_uses?: number;
  /**
   * text says what it matched before; absent where that stayed.
   */
  text?: string;
}
/**
 * Receipt answers every client frame that has a ref.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Receipt".
 */
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
/**
 * An id that makes a repetition harmless.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "CommandBody".
 */
export interface CommandBody {
  /**
   * echoed in the receipt
   */
  ref?: string;
  session_id?: string;
  command_id?: string;
}
/**
 * CreatedAPIToken is the reply to NewAPIToken. token is told this once.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "CreatedAPIToken".
 */
export interface CreatedAPIToken {
  id: string;
  name: string;
  roles: null | Grant[];
  /**
   * whose requests it does not decide
   */
  owner?: string;
  created: Time;
  created_by: string;
  expires_at: Time;
  revoked_at?: Time;
  last_used?: Time;
  token: string;
}
/**
 * An attempt to decide. It has exactly one of decision or option_id, answers, content and action.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "DecisionBody".
 */
export interface DecisionBody {
  digest: string;
  /**
   * digest of what was shown, from its body
   */
  shown?: string;
  /**
   * allow or deny
   */
  decision?: "allow" | "deny";
  option_id?: string;
  answers?: Answers;
  /**
   * Of a form: an object, or the JSON of one.
   */
  content?:
    | {
        [k: string]: unknown;
      }
    | string;
  /**
   * clarify or dismiss
   */
  action?: "clarify" | "dismiss";
  message?: string;
  comment?: string;
  /**
   * With allow: what shall run instead, an object or the JSON of one.
   */
  updated_input?:
    | {
        [k: string]: unknown;
      }
    | string;
  scope?: "once" | "session";
  interrupt?: boolean;
  /**
   * echoed in the receipt
   */
  ref?: string;
  session_id?: string;
  request_id?: string;
  request_type?: string;
}
/**
 * Delivery tells what became of a decision at the asker.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Delivery".
 */
export interface Delivery {
  type: "delivery";
  cursor: string;
  request_id: string;
  key: string;
  session_key: string;
  project_id?: string;
  kind?: string;
  v: number;
  stage: string;
  decision_id: string;
  at: Time;
  detail?: string;
}
/**
 * DoneData is the data of done.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "DoneData".
 */
export interface DoneData {
  /**
   * reason is end_turn, interrupted, or the runtime's own.
   */
  reason?: string | null;
}
/**
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "DoneEvent".
 */
export interface DoneEvent {
  type: "done";
  at: Time;
  /**
   * empty for live deltas
   */
  cursor?: string;
  data: DoneData;
}
/**
 * error is the body of an HTTP error. code is stable; error is for people.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Error".
 */
export interface Error {
  code:
    | "already_decided"
    | "conflict"
    | "digest_mismatch"
    | "expired"
    | "forbidden"
    | "internal"
    | "invalid"
    | "method_not_allowed"
    | "misdirected"
    | "not_found"
    | "taken"
    | "too_large"
    | "too_many"
    | "unauthorized"
    | "unavailable"
    | "upgrade_required";
  error: string;
  fields?: Field[];
  decision?: Decision;
}
/**
 * ErrorData is the data of error.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "ErrorData".
 */
export interface ErrorData {
  message?: string | null;
}
/**
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "ErrorEvent".
 */
export interface ErrorEvent {
  type: "error";
  at: Time;
  /**
   * empty for live deltas
   */
  cursor?: string;
  data: ErrorData;
}
/**
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "TextDeltaEvent".
 */
export interface TextDeltaEvent {
  type: "text_delta";
  at: Time;
  /**
   * empty for live deltas
   */
  cursor?: string;
  data: TextData;
}
/**
 * TextData is the data of text and text_delta.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "TextData".
 */
export interface TextData {
  block_id?: string | null;
  /**
   * user or assistant
   */
  role?: string | null;
  text?: string | null;
  /**
   * attachments are what came with a person's text, without the content.
   */
  attachments?: (AttachmentData | null)[] | null;
  /**
   * parent_tool_call_id names the call whose sub-agent this is a part of.
   */
  parent_tool_call_id?: string | null;
}
/**
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "TextEvent".
 */
export interface TextEvent {
  type: "text";
  at: Time;
  /**
   * empty for live deltas
   */
  cursor?: string;
  data: TextData;
}
/**
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "ToolCallStartEvent".
 */
export interface ToolCallStartEvent {
  type: "tool_call_start";
  at: Time;
  /**
   * empty for live deltas
   */
  cursor?: string;
  data: ToolCallData;
}
/**
 * ToolCallData is the data of tool_call_start and tool_call_delta.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "ToolCallData".
 */
export interface ToolCallData {
  tool_call_id?: string | null;
  tool_name?: string | null;
  /**
   * of the input, as far as it came
   */
  text?: string | null;
  parent_tool_call_id?: string | null;
}
/**
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "ToolCallDeltaEvent".
 */
export interface ToolCallDeltaEvent {
  type: "tool_call_delta";
  at: Time;
  /**
   * empty for live deltas
   */
  cursor?: string;
  data: ToolCallData;
}
/**
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "ToolCallEndEvent".
 */
export interface ToolCallEndEvent {
  type: "tool_call_end";
  at: Time;
  /**
   * empty for live deltas
   */
  cursor?: string;
  data: ToolCallEndData;
}
/**
 * ToolCallEndData is the data of tool_call_end: the gateway made it from what the worker told.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "ToolCallEndData".
 */
export interface ToolCallEndData {
  tool_call_id: string;
  tool_name: string;
  /**
   * JSON text to show
   */
  input: string;
  blocks: null | Block[];
  parent_tool_call_id?: string;
}
/**
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "ToolResultEvent".
 */
export interface ToolResultEvent {
  type: "tool_result";
  at: Time;
  /**
   * empty for live deltas
   */
  cursor?: string;
  data: ToolResultData;
}
/**
 * ToolResultData is the data of tool_result.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "ToolResultData".
 */
export interface ToolResultData {
  tool_call_id?: string | null;
  /**
   * a text, or the runtime's own blocks
   */
  content?: {
    [k: string]: unknown;
  };
  is_error?: boolean | null;
  parent_tool_call_id?: string | null;
}
/**
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "SessionStatusEvent".
 */
export interface SessionStatusEvent {
  type: "session_status";
  at: Time;
  /**
   * empty for live deltas
   */
  cursor?: string;
  data: StatusData;
}
/**
 * StatusData is the data of session_status.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "StatusData".
 */
export interface StatusData {
  state?: string | null;
  error?: string | null;
  kill_reason?: string | null;
  mode?: string | null;
  generation?: number | null;
  /**
   * the worker's own, beside the state
   */
  note?: string | null;
}
/**
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "InteractionPendingEvent".
 */
export interface InteractionPendingEvent {
  type: "interaction_pending";
  at: Time;
  /**
   * empty for live deltas
   */
  cursor?: string;
  data: PendingData;
}
/**
 * PendingData is the data of interaction_pending: the one sign that something waits, or no longer does.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "PendingData".
 */
export interface PendingData {
  tool_call_id: string;
  interaction_id: string;
  key: string;
  tool_name: string;
  pending: boolean;
  /**
   * tool or questionnaire
   */
  presentation: string;
  project_id?: string;
}
/**
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "InteractionRequestEvent".
 */
export interface InteractionRequestEvent {
  type: "interaction_request";
  at: Time;
  /**
   * empty for live deltas
   */
  cursor?: string;
  data: Summary;
}
/**
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "QuestionPromptEvent".
 */
export interface QuestionPromptEvent {
  type: "question_prompt";
  at: Time;
  /**
   * empty for live deltas
   */
  cursor?: string;
  data: QuestionData;
}
/**
 * QuestionData is the data of question_prompt, the request in simple form.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "QuestionData".
 */
export interface QuestionData {
  tool_call_id: string;
  interaction_id: string;
  questions: null | Question[];
  /**
   * questions are to be fetched
   */
  cut: boolean;
  project_id?: string;
}
/**
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "InteractionResponseEvent".
 */
export interface InteractionResponseEvent {
  type: "interaction_response";
  at: Time;
  /**
   * empty for live deltas
   */
  cursor?: string;
  data: Closed;
}
/**
 * events carries one or more steps of a subscribed session's stream, in order.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Events".
 */
export interface Events {
  type: "event";
  session_id: string;
  session_key: string;
  cursor: string;
  events: null | Event[];
  /**
   * reset says that the stream starts anew from its beginning: drop what is held of this session.
   */
  reset?: boolean;
  /**
   * more says that the replay goes on in the next frame.
   */
  more?: boolean;
}
/**
 * Hello is the first frame after a good Auth. recovered says that the client's cursor was still good and only what it missed follows; otherwise a snapshot in ActiveProcesses frames does.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Hello".
 */
export interface Hello {
  type: "hello";
  protocol: number;
  cursor: string;
  server_time: Time;
  principal: Principal;
  recovered: boolean;
  /**
   * runtimes are what the reachable workers can start; empty: no worker.
   */
  runtimes: null | string[];
  /**
   * default_cwd is where a new session would run.
   */
  default_cwd?: string;
  /**
   * ask_command is how the program asks from a shell of this machine, up to its flags; absent where the gateway runs apart from it.
   */
  ask_command?: string;
}
/**
 * Interaction is the whole of one, as GET /api/interactions/{id} returns it.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Interaction".
 */
export interface Interaction {
  id: string;
  request_id: string;
  /**
   * unique over tenants and owners
   */
  key: string;
  request_type: string;
  kind: string;
  /**
   * tool or questionnaire
   */
  presentation: string;
  session_id: string;
  session_key: string;
  tenant: string;
  owner: string;
  project_id?: string;
  agent_name?: string;
  tool_name?: string;
  tool_call_id?: string;
  /**
   * made from data by the server
   */
  headline: string;
  /**
   * the agent's own words
   */
  title: string;
  tool_input?: string;
  /**
   * tool_input is not whole: fetch the body before deciding
   */
  cut?: boolean;
  digest: string;
  risk: string;
  risk_reason?: string;
  /**
   * a part of it cannot be undone
   */
  irreversible?: boolean;
  created_at: Time;
  attention_at?: Time;
  expires_at?: Time;
  server_time: Time;
  /**
   * above 1: asked again
   */
  attempt?: number;
  unreachable?: boolean;
  body?: Body;
  /**
   * pending or closed
   */
  state: "pending" | "closed";
  outcome?: Outcome;
  decision?: Decision;
  trail?: Ack[];
}
/**
 * Invitation is a link by which a user registers a passkey, once.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Invitation".
 */
export interface Invitation {
  user: User;
  url: string;
  expires_at: Time;
}
/**
 * User is somebody who may sign in.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "User".
 */
export interface User {
  id: string;
  name: string;
  roles: null | Grant[];
  disabled?: boolean;
  /**
   * invite, or oidc: roles come from the issuer
   */
  source: string;
  passkeys: number;
  created: Time;
  /**
   * created_by is the id of the admin who made the invitation.
   */
  created_by?: string;
}
/**
 * LinkToken is what a sign-in sends: the token of a one-use link.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "LinkToken".
 */
export interface LinkToken {
  token: string;
}
/**
 * ListReply is the reply to list: an element per interaction.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "ListReply".
 */
export interface ListReply {
  interactions: null | Interaction[];
  /**
   * next goes on from here, as after, and in a search as before; absent where there is nothing more.
   */
  next?: string;
  read_to?: Time;
}
/**
 * MadeRule is the reply to NewRule. applied has a receipt for each of apply.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "MadeRule".
 */
export interface MadeRule {
  rule: Rule;
  applied: null | Receipt[];
}
/**
 * Rule decides requests in the name of the person who made it.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Rule".
 */
export interface Rule {
  id: string;
  /**
   * allow or deny
   */
  effect: string;
  /**
   * title names it in a few words, text says what it matches.
   */
  title: string;
  text: string;
  match: RuleMatch;
  maker: Principal;
  created_at: Time;
  expires_at: Time;
  /**
   * absent: as often as it matches
   */
  max_uses?: number;
  uses: number;
  last_used?: Time;
  revoked_at?: Time;
  revoked_by?: Principal;
  state: string;
  /**
   * version counts from 1 with changes, the oldest first: each says what was before.
   */
  version?: number;
  changes?: RuleChange[];
  /**
   * may_revoke says that whoever reads this may revoke it.
   */
  may_revoke?: boolean;
  /**
   * may_change says that whoever reads this made it and may change it, to last max_expires_in seconds from now at most.
   */
  may_change?: boolean;
  max_expires_in?: number;
  from?: RuleTarget;
}
/**
 * Me is who a token stands for.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Me".
 */
export interface Me {
  principal: Principal;
  /**
   * of what is decided with it
   */
  channel: string;
  assurance: string;
  /**
   * how the person signed in: link, cli, passkey, oidc, token or test
   */
  via: string;
  expires_at: Time;
  roles: null | Grant[];
  /**
   * the person has one
   */
  passkey: boolean;
  /**
   * this session may manage people and tokens
   */
  manages: boolean;
}
/**
 * A person's words: a text, attachments, or both.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "MessageBody".
 */
export interface MessageBody {
  /**
   * echoed in the receipt
   */
  ref?: string;
  session_id?: string;
  command_id?: string;
  text?: string;
  attachments?: Attachment[];
}
/**
 * The mode to change to.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "ModeBody".
 */
export interface ModeBody {
  mode: string;
  /**
   * echoed in the receipt
   */
  ref?: string;
  session_id?: string;
  command_id?: string;
}
/**
 * NewAPIToken asks for a token.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "NewAPIToken".
 */
export interface NewAPIToken {
  name: string;
  roles: null | Grant[];
  /**
   * owner names the asker that will use the token, if one will.
   */
  owner?: string;
  /**
   * expires_in is in seconds.
   */
  expires_in: number;
}
/**
 * NewRule asks for a rule like a request that was shown. Its pattern and scope are ids of the choices that a preview offers.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "NewRule".
 */
export interface NewRule {
  request_id: string;
  digest: string;
  /**
   * default allow
   */
  effect?: "allow" | "deny";
  /**
   * default exact
   */
  pattern?: string;
  /**
   * default session
   */
  scope?: "session" | "project" | "owner";
  /**
   * expires_in is in seconds. No rule is for ever.
   */
  expires_in: number;
  max_uses?: number;
  /**
   * apply are requests that wait and that the rule is to decide at once.
   */
  apply?: RuleTarget[];
}
/**
 * NewUser invites somebody.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "NewUser".
 */
export interface NewUser {
  id: string;
  /**
   * default the id
   */
  name?: string;
  roles: null | Grant[];
}
/**
 * ok says that it was done.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "OK".
 */
export interface OK {
  ok: boolean;
}
/**
 * Ping asks the client for a Pong.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Ping".
 */
export interface Ping {
  type: "ping";
  server_time: Time;
}
/**
 * PushBrowser is a browser that wants pushes, as its person sees it.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "PushBrowser".
 */
export interface PushBrowser {
  id: string;
  /**
   * what the browser calls itself
   */
  agent?: string;
  created_at: Time;
  /**
   * this: it belongs to the sign-in that asks.
   */
  this?: boolean;
}
/**
 * PushBrowsers are those of one person. public_key is what a browser subscribes with; empty: this installation has no key for pushes yet.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "PushBrowsers".
 */
export interface PushBrowsers {
  public_key: string;
  browsers: null | PushBrowser[];
  /**
   * renewal is the secret of the browser that was just added, which nobody else is told: with it the browser says that it has another subscription.
   */
  renewal?: string;
}
/**
 * PushKeys are what pushes to a browser are encrypted with, base64url.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "PushKeys".
 */
export interface PushKeys {
  p256dh: string;
  auth: string;
}
/**
 * PushRenewal tells that a browser has another subscription now. Which one it is, is known by the secret that only it was given, as a service worker has no session.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "PushRenewal".
 */
export interface PushRenewal {
  /**
   * id of whose browser it is
   */
  user: string;
  /**
   * as the browser was told when it was added
   */
  renewal: string;
  new: PushSubscription;
}
/**
 * PushSubscription is how a browser says that it wants pushes: what its own interface (PushSubscription.toJSON) gives.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "PushSubscription".
 */
export interface PushSubscription {
  endpoint: string;
  keys: PushKeys;
}
/**
 * RuleCase is a request that was held against a rule.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "RuleCase".
 */
export interface RuleCase {
  /**
   * the key
   */
  request_id: string;
  digest: string;
  headline: string;
  /**
   * as in a summary
   */
  input?: string;
  cut?: boolean;
  created_at: Time;
  outcome?: Outcome;
}
/**
 * RuleChoice is a pattern or a scope that is possible for a request, the narrowest first.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "RuleChoice".
 */
export interface RuleChoice {
  id: string;
  text: string;
}
/**
 * RuleExample is an input that a rule would not decide.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "RuleExample".
 */
export interface RuleExample {
  text: string;
  why: string;
}
/**
 * RuleList are the rules that one may see, those in force first, then the newest.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "RuleList".
 */
export interface RuleList {
  rules: null | Rule[];
}
/**
 * RulePreview says what a rule would be, before it is made.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "RulePreview".
 */
export interface RulePreview {
  rule: Rule;
  patterns: null | RuleChoice[];
  scopes: null | RuleChoice[];
  /**
   * pending are those it would decide now, recent those it would have decided, others those of the same tool that it would leave to people.
   */
  pending: null | RuleCase[];
  recent: null | RuleCase[];
  others: null | RuleCase[];
  /**
   * looked is how many decided requests of this asker and tool were looked at.
   */
  looked: number;
  examples: null | RuleExample[];
  /**
   * max_expires_in is the longest time, in seconds.
   */
  max_expires_in: number;
}
/**
 * RulesChanged tells that the rules are not what they were: whoever shows them reads them again.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "RulesChanged".
 */
export interface RulesChanged {
  type: "rules_changed";
}
/**
 * Says which interactions a person has before their eyes now, by ids or keys, at most 50: on a page that is visible and has the focus. It has a receipt where it has a ref, or cannot be used.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Seen".
 */
export interface Seen {
  type: "seen";
  requests: string[];
  /**
   * echoed in the receipt
   */
  ref?: string;
}
/**
 * Services tells who stands ready beside the gateway.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Services".
 */
export interface Services {
  /**
   * runtimes are what the reachable workers can start; empty: no worker.
   */
  runtimes: null | string[];
  /**
   * notifier is listening where a notifier would hear of a request, silent where none does, and unknown where that could not be found out.
   */
  notifier: string;
  /**
   * channels are those by which a notifier that listens tells people; absent where it did not say.
   */
  channels?: AlertChannel[];
}
/**
 * SessionList is the state of all sessions at cursor.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "SessionList".
 */
export interface SessionList {
  cursor: string;
  sessions: null | ProcessState[];
}
/**
 * SessionStarted names a session that was asked for, by its key.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "SessionStarted".
 */
export interface SessionStarted {
  session_id: string;
}
/**
 * SessionToken is the reply to a good sign-in. The token stands for the person until it expires or is signed out.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "SessionToken".
 */
export interface SessionToken {
  token: string;
  expires_at: Time;
}
/**
 * SignIn is one way by which a person is signed in: a browser, a terminal.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "SignIn".
 */
export interface SignIn {
  id: string;
  /**
   * link, cli, passkey, oidc or test
   */
  via: string;
  /**
   * of a terminal
   */
  name?: string;
  created_at: Time;
  expires_at: Time;
  last_seen?: Time;
  /**
   * address it was last used from, as the gateway saw it
   */
  from?: string;
  /**
   * and first
   */
  first_from?: string;
  /**
   * what the browser calls itself
   */
  agent?: string;
  /**
   * it is the one that asks
   */
  this?: boolean;
}
/**
 * SignInList are the sign-ins of one person, the one used last first.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "SignInList".
 */
export interface SignInList {
  sign_ins: null | SignIn[];
}
/**
 * SignInWays are how people can sign in here, beside the link of a terminal.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "SignInWays".
 */
export interface SignInWays {
  passkeys: boolean;
  /**
   * oidc is what the issuer is called; empty: there is none.
   */
  oidc?: string;
}
/**
 * SignedIn tells a person, and whoever manages people, that somebody signed in as that person.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "SignedIn".
 */
export interface SignedIn {
  type: "signed_in";
  principal: Principal;
  /**
   * of the terminal, or else of the person
   */
  name: string;
  /**
   * link, passkey, oidc, cli or test
   */
  via: string;
  at: Time;
}
/**
 * A session to start.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "StartBody".
 */
export interface StartBody {
  runtime: string;
  /**
   * echoed in the receipt
   */
  ref?: string;
  command_id?: string;
  prompt?: string;
  attachments?: Attachment[];
  cwd?: string;
  mode?: string;
  model?: string;
  project_id?: string;
  tenant?: string;
  pool?: string;
}
/**
 * TicketUse decides, by the token of a push, the request as it was told there.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "TicketUse".
 */
export interface TicketUse {
  token: string;
  /**
   * allow or deny
   */
  decision: string;
}
/**
 * UserList are all users, by id.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "UserList".
 */
export interface UserList {
  users: null | User[];
}
/**
 * The first frame of a client. Without a cursor, or with one that is not good any more, a snapshot follows.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Auth".
 */
export interface Auth {
  type: "auth";
  token: string;
  cursor?: string;
}
/**
 * Asks for the events of a session, after from or from its beginning.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Subscribe".
 */
export interface Subscribe {
  type: "subscribe";
  session_id: string;
  /**
   * echoed in the receipt
   */
  ref?: string;
  from?: string;
}
/**
 * Ends a subscription.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Unsubscribe".
 */
export interface Unsubscribe {
  type: "unsubscribe";
  session_id: string;
  /**
   * echoed in the receipt
   */
  ref?: string;
}
/**
 * An attempt to decide. It has exactly one of decision or option_id, answers, content and action.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "PendingRequestResponse".
 */
export interface PendingRequestResponse {
  type: "pending_request_response";
  session_id: string;
  request_id: string;
  request_type: string;
  digest: string;
  /**
   * echoed in the receipt
   */
  ref?: string;
  /**
   * digest of what was shown, from its body
   */
  shown?: string;
  /**
   * allow or deny
   */
  decision?: "allow" | "deny";
  option_id?: string;
  answers?: Answers;
  /**
   * Of a form: an object, or the JSON of one.
   */
  content?:
    | {
        [k: string]: unknown;
      }
    | string;
  /**
   * clarify or dismiss
   */
  action?: "clarify" | "dismiss";
  message?: string;
  comment?: string;
  /**
   * With allow: what shall run instead, an object or the JSON of one.
   */
  updated_input?:
    | {
        [k: string]: unknown;
      }
    | string;
  scope?: "once" | "session";
  interrupt?: boolean;
}
/**
 * Asks for a new session.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "StartSession".
 */
export interface StartSession {
  type: "start_session";
  runtime: string;
  /**
   * echoed in the receipt
   */
  ref?: string;
  command_id?: string;
  prompt?: string;
  attachments?: Attachment[];
  cwd?: string;
  mode?: string;
  model?: string;
  project_id?: string;
  tenant?: string;
  pool?: string;
}
/**
 * Hands a session a person's words: a text, attachments, or both.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "SendMessage".
 */
export interface SendMessage {
  type: "send_message";
  session_id: string;
  /**
   * echoed in the receipt
   */
  ref?: string;
  command_id?: string;
  text?: string;
  attachments?: Attachment[];
}
/**
 * Ends the turn that a session is in.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Interrupt".
 */
export interface Interrupt {
  type: "interrupt";
  session_id: string;
  /**
   * echoed in the receipt
   */
  ref?: string;
  command_id?: string;
}
/**
 * Ends a session.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "StopSession".
 */
export interface StopSession {
  type: "stop_session";
  session_id: string;
  /**
   * echoed in the receipt
   */
  ref?: string;
  command_id?: string;
}
/**
 * Changes how a session asks.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "SetMode".
 */
export interface SetMode {
  type: "set_mode";
  session_id: string;
  mode: string;
  /**
   * echoed in the receipt
   */
  ref?: string;
  command_id?: string;
}
/**
 * Answers a ping.
 *
 * This interface was referenced by `Wire`'s JSON-Schema
 * via the `definition` "Pong".
 */
export interface Pong {
  type: "pong";
}

export const PROTOCOL = 1;
export const CLOSE_BAD_AUTH = 3500;
export const CLOSE_BAD_FRAME = 3501;
export const CLOSE_LATE = 3003;
export const CLOSE_NO_AUTH = 3503;
export const CLOSE_RECONNECT_MAX = 3499;
export const CLOSE_RESTART = 3001;
export const CLOSE_SLOW = 3000;
export const CLOSE_STALE = 3002;
export const CLOSE_TOO_MANY = 3502;
