package natsd
