package hitl
