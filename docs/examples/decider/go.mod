module github.com/banksman/banksman/docs/examples/decider

go 1.26.0

require (
	github.com/google/cel-go v0.26.1
	github.com/nats-io/nats.go v1.55.0
	github.com/nats-io/nkeys v0.4.17
)

require (
	cel.dev/expr v0.24.0 // indirect
	github.com/antlr4-go/antlr/v4 v4.13.0 // indirect
	github.com/klauspost/compress v1.20.0 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/stoewer/go-strcase v1.2.0 // indirect
	golang.org/x/crypto v0.57.0 // indirect
	golang.org/x/exp v0.0.0-20230515195305-f3d0a9c9a5cc // indirect
	golang.org/x/sys v0.48.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20240826202546-f6391c0de4c7 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20240826202546-f6391c0de4c7 // indirect
	google.golang.org/protobuf v1.34.2 // indirect
)
