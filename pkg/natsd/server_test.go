package natsd_test

func runAsChild() bool { return false }
