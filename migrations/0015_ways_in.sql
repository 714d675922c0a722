ALTER TABLE `api_keys` ADD `expires_at` integer;--> statement-breakpoint
ALTER TABLE `api_keys` ADD `limits` text;--> statement-breakpoint
ALTER TABLE `templates` ADD `foreign_id` integer;--> statement-breakpoint
CREATE UNIQUE INDEX `templates_foreign` ON `templates` (`account_id`,`foreign_id`) WHERE foreign_id is not null and deleted_at is null;--> statement-breakpoint
ALTER TABLE `inbound_secrets` ADD `previous_secret` blob;--> statement-breakpoint
ALTER TABLE `webhooks` ADD `previous_secret` blob;--> statement-breakpoint
ALTER TABLE `webhooks` ADD `format` integer DEFAULT 0 NOT NULL;