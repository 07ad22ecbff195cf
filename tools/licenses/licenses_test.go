package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestALicenceIsNamedByItsText(t *testing.T) {
	for text, want := range map[string]string{
		"Apache License\n   Version 2.0, January 2004":                                                                                  "Apache-2.0",
		"MIT License\n\nPermission is hereby granted, free of charge, to any person":                                                    "MIT",
		"Redistribution and use in source and binary forms ... Neither the name of":                                                     "BSD-3-Clause",
		"Redistribution and use in source and binary forms, with or without":                                                            "BSD-2-Clause",
		"Permission to use, copy, modify, and/or distribute this software for any purpose ... provided that the above copyright notice": "ISC",
		"Mozilla Public License Version 2.0":                                                                                            "", "GNU GENERAL PUBLIC LICENSE, and then: Permission is hereby granted, free of charge": "",
		"All rights reserved.": "", "": "",
	} {
		if got := classify(text); got != want {
			t.Errorf("%.40q is %q, want %q", text, got, want)
		}
	}
}

func TestOtherLicencesAreRefused(t *testing.T) {
	fine := part{"a", "v1", "MIT", []string{"text"}}
	if err := refused([]part{fine}); err != nil {
		t.Error(err)
	}
	for want, p := range map[string]part{
		"GPL-3.0":         {"b", "v1", "GPL-3.0", []string{"text"}},
		`licence ""`:      {"b", "v1", "", []string{"text"}},
		"no licence file": {"b", "v1", "MIT", nil},
		"MIT and ":        {"b", "v1", "MIT and ", []string{"text", "other"}},
	} {
		if err := refused([]part{fine, p}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "b v1") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestTwoLicencesOfOnePartAreNotOne(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"LICENSE": "Permission is hereby granted, free of charge", "LICENSE.other": "All rights reserved.", "NOTICE": "by us", "license.go": "package x",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := read("x", "v1", dir)
	if err != nil || refused([]part{p}) == nil || len(p.texts) != 3 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestWhatTheAppNeedsIsFoundThroughItsWorkspaces(t *testing.T) {
	l := &lock{}
	l.Packages = map[string]struct {
		Version      string
		License      string
		Resolved     string
		Link         bool
		Dependencies map[string]string
	}{
		"":                              {Dependencies: map[string]string{"@own/client": "0", "a": "1"}},
		"node_modules/@own/client":      {Link: true, Resolved: "packages/client"},
		"packages/client":               {Dependencies: map[string]string{"b": "1"}},
		"node_modules/a":                {Dependencies: map[string]string{"c": "1"}},
		"node_modules/a/node_modules/c": {},
		"node_modules/b":                {Dependencies: map[string]string{"a": "1"}},
		"node_modules/c":                {},
		"node_modules/only-for-tests":   {},
		"node_modules/tailwindcss":      {},
		"node_modules/vite":             {Dependencies: map[string]string{"only-for-tests": "1"}},
	}
	want := []string{"node_modules/a", "node_modules/a/node_modules/c", "node_modules/b", "node_modules/tailwindcss", "node_modules/vite"}
	if got := shipped(l); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
