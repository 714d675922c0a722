ALTER TABLE `domains` ADD `ed25519_public_key` text;--> statement-breakpoint
ALTER TABLE `domains` ADD `ed25519_private_key` blob;--> statement-breakpoint
ALTER TABLE `domains` ADD `ed25519_verified` integer DEFAULT false NOT NULL;