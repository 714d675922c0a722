CREATE TABLE `warm_ups` (
	`provider` text NOT NULL,
	`source` text NOT NULL,
	`day` integer NOT NULL,
	`budget` integer,
	`tried` integer NOT NULL,
	`accepted` integer NOT NULL,
	`failed` integer NOT NULL,
	`is_blocked` integer NOT NULL,
	PRIMARY KEY(`provider`, `source`)
) STRICT;
