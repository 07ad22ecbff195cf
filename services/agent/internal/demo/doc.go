// Package demo is a runtime without a model: a scripted conversation that asks
// for everything people can be asked for, and reacts truthfully to each answer.
// Nothing is ever executed. It survives its worker: a step that waits is asked
// again under the same key, and a step that was answered is not repeated.
package demo
