// Package hitl is the domain: what an agent may ask of a person, what a person
// may answer, and the rules that decide whether an answer fits.
//
// The records ([Request], [Decision], [SessionState], [Event] ...) are the wire
// form as well: their JSON tags are the protocol. The package knows neither
// NATS nor HTTP and imports nothing but the standard library and uuid.
//
// What it promises:
//
//   - A request is judged by its exact bytes: [ParseRequest] refuses duplicate
//     keys and invalid UTF-8, [Digest] covers every byte, and tool input is kept
//     raw so that no number is ever rounded.
//   - [Evaluate] turns a person's [Response] into an outcome or into a list of
//     fields with problems; it never guesses, and an empty answer is never
//     consent.
//   - [Sign] and [Verify] bind a decision to one subject and its exact body.
package hitl
