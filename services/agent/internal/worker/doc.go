// Package worker is one process of an owner: it takes sessions from the pool's
// queue, runs them through runtimes, tells the bus what happens in them, and
// carries out commands.
//
// What it promises:
//
//   - A session is claimed before its start leaves the queue, so that exactly
//     one worker has it.
//   - A worker that comes back to its data directory finds its sessions again:
//     those with open asks ask again and get the same decisions, the others wait
//     for their next message.
//   - Of two workers that have the same session, each with a copy of one data
//     directory, the one with the lower generation leaves it to the other, without
//     a decision or a withdrawal, before it uses an approval or takes a command.
//   - Ending the worker is never a denial: open asks are left to the successor.
//   - A session that cannot go on is dead, with the reason in plain words.
package worker
