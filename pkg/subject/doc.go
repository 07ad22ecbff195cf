package subject
