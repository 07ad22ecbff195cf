package hitltest
