CREATE TABLE `template_versions` (
	`template_id` integer NOT NULL,
	`version` integer NOT NULL,
	`subject` text NOT NULL,
	`html_body` text,
	`text_body` text,
	`actor_type` text,
	`actor_id` text,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`template_id`, `version`),
	FOREIGN KEY (`template_id`) REFERENCES `templates`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
