ALTER TABLE `sessions` ADD `password_at` integer;--> statement-breakpoint
ALTER TABLE `webhooks` ADD `description` text;--> statement-breakpoint
ALTER TABLE `webhooks` ADD `secret_rotated_at` integer;--> statement-breakpoint
ALTER TABLE `webhooks` ADD `failing_since` integer;