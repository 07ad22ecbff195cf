package notifier
