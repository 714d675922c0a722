/** @module Wire shapes of /v1/operator/health, /v1/operator/doctor and /v1/operator/settings. */
import { type Static, Type } from '@sinclair/typebox'
import { FILE_SYSTEM_FIELDS } from '#features/lifecycle/retention/disk-model.ts'
import {
  Bytes,
  Count,
  Nullable,
  NullablePart,
  Part,
  StringEnum,
  Text,
  TextOrNull,
  Timestamp,
} from '#platform/http/schemas.ts'

export const ServerHealth = Type.Object({
  read_at: Timestamp({ description: 'When this was read.' }),
  version: Text('Version of the service.'),
  started_at: Timestamp({ description: 'When the service started.' }),
  hostname: Text('Name of the host in SMTP and DNS.'),
  public_url: Text('URL under which browsers reach the service.'),
  url: TextOrNull('Address of the HTTP API on this machine; null: no service runs.'),
  delivery: Text('Delivery mode: direct, relay or capture.'),
  is_delivering: Type.Boolean({ description: 'Whether mail is being delivered.' }),
  inbound_addr: TextOrNull('Address where mail is received; null: none.'),
  submission: NullablePart('Mail submission by SMTP; null: off.', {
    addrs: Type.Array(Type.String(), { description: 'Addresses where programs submit mail by SMTP.' }),
    sessions: Count('Open sessions, at most 10 seconds ago.'),
    accepted: Count('Messages accepted since the start of the service.'),
    deferred: Count('Messages that got a 4xx since then; programs send them again.'),
    rejected: Count('Messages that got a 5xx since then.'),
    failed_logins: Count('Failed logins since then.'),
  }),
  problems: Type.Array(Type.Object({ field: Text('The part that is not ready.'), message: Text('What is wrong.') }), {
    description: 'Why the service cannot take work, as /readyz reports; empty: it can.',
  }),
  warnings: Type.Array(Type.String(), {
    description: 'Problems of the settings, and of the reverse DNS of our addresses, as sentences.',
  }),
  memory_bytes: Bytes('Memory of the process'),
  disk: Part('The disk.', FILE_SYSTEM_FIELDS),
  queue: Part('The mail queue.', {
    waiting: Count('Recipients whose mail waits for delivery.'),
    lanes: Count('Destinations of this mail; each account has its own.'),
    in_flight: Count('Recipients to whom mail is being delivered.'),
    stalled: Count(
      'Queues of an account and domain whose due mail makes no progress, although nothing known holds it. The log names them; a restart frees them. Report it: it is a mistake of the service.',
    ),
    first_due_at: Nullable(Timestamp(), { description: 'When the earliest is due; null: none waits.' }),
  }),
  received: Count('Received messages that are not processed yet.'),
  webhooks: Part('Webhooks of all accounts.', {
    waiting: Count('Deliveries that wait for an attempt.'),
    deactivated: Count('Webhooks deactivated by failures.'),
  }),
  accounts: Part('Accounts.', {
    total: Count('Number of accounts.'),
    paused: Count('Number of those that are paused.'),
  }),
})
export type ServerHealth = Static<typeof ServerHealth>

export const Finding = Type.Object({
  check: Text('Name of the check.'),
  status: StringEnum(['ok', 'warning', 'failure', 'skipped'], {
    description: '`skipped`: the check does not apply, or could not be made.',
  }),
  subject: TextOrNull(
    'What it is about, if a check looks at several things, such as an address, a domain or a webhook.',
  ),
  message: Text('What was found.'),
  fix: TextOrNull('What to do; null: nothing.'),
})
export type Finding = Static<typeof Finding>

export const DoctorFindings = Type.Object({
  checked_at: Nullable(Timestamp(), { description: 'When the checks ended; null: they have not run since the start.' }),
  findings: Type.Array(Finding, { description: 'By check, in a fixed order.' }),
})
export type DoctorFindings = Static<typeof DoctorFindings>

export const SettingRecord = Type.Object({
  topic: Text('What it belongs to.'),
  variable: Text('Name of the environment variable.'),
  toml_key: Text('Name in the TOML file.'),
  value: Text('Its value; `(set)` in place of a secret.'),
  source: Text('Where the value comes from: environment, file or default.'),
  allowed: Text('Which values are allowed.'),
  description: Text('What it does.'),
})
