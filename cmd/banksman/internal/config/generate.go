package config

//go:generate sh -c "go run ../.. config page > ../../../../docs/configuration.md"
