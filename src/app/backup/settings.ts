/** @module Settings of scheduled backups. */
import type { SettingValues } from '#platform/config.ts'
import { checked, integer, isHttpUrl, list, text } from '#platform/setting-kinds.ts'

const TIME_OF_DAY = /^([01]\d|2[0-3]):[0-5]\d$/

export const backupSettings = {
  backupDir: text(
    '',
    'Folder of scheduled backups, best on another disk; the service must be allowed to write to it. Empty: none is written there.',
    'a path',
  ),
  backupAt: list(
    'Times of day (UTC) of scheduled backups.',
    'times such as 03:15, separated by commas',
    (item) => TIME_OF_DAY.test(item),
    ['03:15'],
  ),
  backupKeep: integer(7, 1, 10_000, 'Number of scheduled backups that are kept, in each place.'),
  backupS3Endpoint: checked(
    '',
    'a URL such as https://s3.eu-central-1.amazonaws.com',
    'S3-compatible storage for scheduled backups; empty: none is written there.',
    (value) => value === '' || isHttpUrl(value),
  ),
  backupS3Bucket: text('', 'Bucket for scheduled backups, which must exist.', 'the name of a bucket'),
  backupS3Prefix: checked(
    'tassis',
    'letters, digits, dots, hyphens, underscores and slashes',
    'Beginning of the names of all objects; each service needs its own.',
    (value) => /^[\w.-]+(\/[\w.-]+)*$/.test(value),
  ),
  backupS3Region: text('us-east-1', 'Region of the bucket, as its provider names it.', 'the name of a region'),
  backupS3AccessKeyId: text('', 'Access key of the storage.', 'an access key'),
  backupS3SecretAccessKey: {
    ...text('', 'Secret of the access key.', 'a secret key'),
    secret: true,
  },
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof backupSettings> {}
}
