/** @module Wire shapes of /v1/operator: what operators see of the whole service. */
import { type Static, type TProperties, Type } from '@sinclair/typebox'
import { QUEUE_RULE_KINDS } from '#features/sending/queue/queue-rules.ts'
import { Nullable, PAGE_FIELDS, StrictObject, StringEnum, Timestamp, Uuid } from '#platform/http/schemas.ts'

const MAX_FILTER_LENGTH = 320
export const MAX_PAUSE_REASON_LENGTH = 300
export const MAX_QUEUE_REASON_LENGTH = 300

const text = (description: string) => Type.String({ description })
const count = (description: string) => Type.Integer({ description })
const bytes = (description: string) => Type.Integer({ description: `${description}, in bytes.` })
const part = <T extends TProperties>(description: string, fields: T) => Type.Object(fields, { description })
const nullablePart = <T extends TProperties>(description: string, fields: T) =>
  Nullable(Type.Object(fields), { description })
const filter = (description: string) => Type.Optional(Type.String({ maxLength: MAX_FILTER_LENGTH, description }))

const FILE_SYSTEM_FIELDS = {
  size_bytes: bytes('Size of the file system of the data directory'),
  free_bytes: bytes('Free space'),
  wanted_free_bytes: bytes('New mail is refused when less is free'),
}

export const ServerHealth = Type.Object({
  read_at: Timestamp({ description: 'When this was read.' }),
  version: text('Version of the service.'),
  started_at: Timestamp({ description: 'When the service started.' }),
  hostname: text('Name of the host in SMTP and DNS.'),
  public_url: text('URL under which browsers reach the service.'),
  delivery: text('Delivery mode: direct, relay or capture.'),
  is_delivering: Type.Boolean({ description: 'Whether mail is being delivered.' }),
  inbound_addr: Nullable(Type.String(), { description: 'Address where mail is received; null: none.' }),
  submission: nullablePart('Mail submission by SMTP; null: off.', {
    addrs: Type.Array(Type.String(), { description: 'Addresses where programs submit mail by SMTP.' }),
    sessions: count('Open sessions, at most 10 seconds ago.'),
    accepted: count('Messages accepted since the start of the service.'),
    deferred: count('Messages that got a 4xx since then; programs send them again.'),
    rejected: count('Messages that got a 5xx since then.'),
    failed_logins: count('Failed logins since then.'),
  }),
  problems: Type.Array(Type.Object({ field: text('The part that is not ready.'), message: text('What is wrong.') }), {
    description: 'Why the service cannot take work, as /readyz reports; empty: it can.',
  }),
  warnings: Type.Array(Type.String(), {
    description: 'Problems of the settings, and of the reverse DNS of our addresses, as sentences.',
  }),
  memory_bytes: bytes('Memory of the process'),
  disk: part('The disk.', FILE_SYSTEM_FIELDS),
  queue: part('The mail queue.', {
    waiting: count('Recipients whose mail waits for delivery.'),
    lanes: count('Destinations of this mail; each account has its own.'),
    in_flight: count('Recipients to whom mail is being delivered.'),
    stalled: count(
      'Queues of an account and domain whose due mail makes no progress, although nothing known holds it. The log names them; a restart frees them. Report it: it is a mistake of the service.',
    ),
    first_due_at: Nullable(Timestamp(), { description: 'When the earliest is due; null: none waits.' }),
  }),
  received: count('Received messages that are not processed yet.'),
  webhooks: part('Webhooks of all accounts.', {
    waiting: count('Deliveries that wait for an attempt.'),
    deactivated: count('Webhooks deactivated by failures.'),
  }),
  accounts: part('Accounts.', {
    total: count('Number of accounts.'),
    paused: count('Number of those that are paused.'),
  }),
})
export type ServerHealth = Static<typeof ServerHealth>

export const QueueQuery = Type.Object({
  ...PAGE_FIELDS,
  account_id: filter('Only mail of the account with this id.'),
  domain: filter('Only mail to this domain.'),
})
export const QueueLane = Type.Object({
  lane: text('Name of the lane: the mail of one account to one domain; broadcasts have their own.'),
  account_id: Nullable(Uuid(), { description: 'Id of the account; null: it is deleted.' }),
  account: Nullable(Type.String(), { description: 'Name of the account; null: it is deleted.' }),
  domain: text(
    'Domain of the recipients; `sandbox` for mail that is only captured, `simulator` for mail to the simulator.',
  ),
  is_broadcast: Type.Boolean({ description: 'Whether it is mail of broadcasts, which yields to other mail.' }),
  waiting: count('Number of recipients.'),
  first_due_at: Timestamp({ description: 'When the earliest is due.' }),
  reason: text('Why it waits.'),
})
export type QueueLane = Static<typeof QueueLane>

const SELECTOR_FIELDS = {
  domain: filter(
    'Mail to this domain; `sandbox` for mail that is only captured, `simulator` for mail to the simulator.',
  ),
  provider: filter('Mail to the domains of this provider, by their MX hosts: a name of `GET /v1/operator/providers`.'),
  account_id: filter('Mail of the account with this id.'),
  email_id: filter('This email; without `domain`, `provider` and `account_id`.'),
}
const REASON_FIELD = { reason: filter(`Why, at most ${MAX_QUEUE_REASON_LENGTH} characters.`) }
const CURSOR_FIELD = { cursor: Type.Optional(text('`next_cursor` of the response before, to continue.')) }
export const QueueSelector = StrictObject(SELECTOR_FIELDS)
export const QueueHoldRequest = StrictObject({ ...SELECTOR_FIELDS, ...REASON_FIELD })
export const QueueRedirectRequest = StrictObject({
  ...SELECTOR_FIELDS,
  ...REASON_FIELD,
  to: Type.String({
    maxLength: MAX_FILTER_LENGTH,
    description: '`example.com` (its MX hosts), `[mx.example.com]` or an IP address, each with `:PORT` or without.',
  }),
})
export const QueueReleaseRequest = StrictObject({
  ...SELECTOR_FIELDS,
  kind: Type.Optional(StringEnum(QUEUE_RULE_KINDS, { description: 'Only holds or only redirects; default: both.' })),
})
export const QueueChangeRequest = StrictObject({ ...SELECTOR_FIELDS, ...CURSOR_FIELD })
export const QueueBounceRequest = StrictObject({
  ...SELECTOR_FIELDS,
  ...CURSOR_FIELD,
  reason: Type.String({
    maxLength: MAX_FILTER_LENGTH,
    description: `Why, 1 to ${MAX_QUEUE_REASON_LENGTH} characters; the senders read it.`,
  }),
})
export const QueueSelection = Type.Object({
  waiting: count('Recipients that wait for an attempt.'),
  in_delivery: count('Recipients in delivery, which no action changes.'),
})
export type QueueSelection = Static<typeof QueueSelection>
export const QueueChange = Type.Object({
  changed: count('Recipients that were changed.'),
  in_delivery: count('Recipients that were left alone, because they were in delivery.'),
  held: count('Recipients that were left alone, because an operator holds them.'),
  suspended: Type.Array(Type.String(), {
    description:
      'Suspended providers of the mail that is retried: it waits for their probes, until they are resumed. Empty for other actions.',
  }),
  next_cursor: Nullable(Type.String(), {
    description: 'There is more: repeat the request with this `cursor`. Null: all was examined.',
  }),
})
export type QueueChange = Static<typeof QueueChange>
export const QueueRuleRecord = Type.Object({
  id: text('Id of the hold or redirect.'),
  kind: StringEnum(QUEUE_RULE_KINDS, { description: 'hold or redirect.' }),
  domain: Nullable(Type.String(), { description: 'Domain of the recipients; null: any.' }),
  provider: Nullable(Type.String(), { description: 'Provider of the domain of the recipients; null: any.' }),
  account_id: Nullable(Uuid(), { description: 'Id of the account; null: any, or it is deleted.' }),
  account: Nullable(Type.String(), { description: 'Name of the account; null: any, or it is deleted.' }),
  email_id: Nullable(Uuid(), { description: 'Id of the email; null: not one email.' }),
  to: Nullable(Type.String(), { description: 'Where redirected mail goes; null: it is held.' }),
  reason: text('Why, in the words of the operator; may be empty.'),
  created_by: text('`cli`, or the id of the user.'),
  created_at: Timestamp({ description: 'Since when.' }),
})
export type QueueRuleRecord = Static<typeof QueueRuleRecord>

export const QueueRecipientQuery = Type.Object({
  lane: Type.String({ maxLength: MAX_FILTER_LENGTH, description: 'Name of a lane, as in the queue.' }),
})
export const QueueRecipient = Type.Object({
  email_id: Uuid({ description: 'Id of the email.' }),
  account: text('Name of the account.'),
  lane: text('Name of the lane.'),
  recipient: text('Address of the recipient.'),
  status: text('Status of the recipient.'),
  attempts: count('Number of attempts so far.'),
  next_at: Timestamp({ description: 'When the next attempt is due.' }),
  waits_for: Nullable(StringEnum(['hold', 'fence']), {
    description: 'What an operator must end before that: a hold, or the fence of restored data; null: neither.',
  }),
  last_error: Nullable(Type.String(), { description: 'Why the last attempt failed; null: it has not failed.' }),
})
export type QueueRecipient = Static<typeof QueueRecipient>

const traffic = (description: string) =>
  part(description, {
    attempted: count('Attempts.'),
    accepted: count('Messages that it accepted.'),
    deferred: count('Attempts that will be made again.'),
    refused: count('Messages that it rejected permanently.'),
  })
export const ServerProvider = Type.Object({
  provider: text('Name in the list of providers, or the mail hosts of a site without an entry.'),
  source: Nullable(Type.String(), {
    description: 'Our outgoing address; null: the system chooses it, or nothing was sent yet.',
  }),
  is_listed: Type.Boolean({ description: 'Whether it has an entry in the list of providers.' }),
  limits: part('The limits of the provider.', {
    connections: count('Connections at the same time.'),
    messages_per_connection: count('Messages over one connection.'),
    connection_age_seconds: count('How long a connection is used at most.'),
    idle_seconds: count('How long a connection waits for the next message.'),
    per_second: count('Messages in any second; 0: no limit.'),
    per_minute: count('Messages in any minute; 0: no limit.'),
    tls: text('opportunistic or required.'),
    route: text('direct or smarthost.'),
    figures_from: text('Where the figures are published.'),
  }),
  rate_factor: Type.Number({
    description: 'Fraction of the limits in use; replies lower it, accepted mail raises it.',
  }),
  rate_per_minute: Nullable(Type.Number(), { description: 'Messages a minute in use; null: no limit.' }),
  suspension: nullablePart('Why nothing is sent; null: not suspended.', {
    rule: text('Rule of the reply that began it.'),
    reason: text('The reply.'),
    since: Timestamp({ description: 'When it began.' }),
    until: Timestamp({ description: 'When the next message is tried.' }),
    failures: count('Rejections in a row.'),
  }),
  warm_up: nullablePart('The daily budget while our address is new to the provider; null: it is not.', {
    budget: count('Messages that the provider gets on this day (UTC).'),
    used: count('Messages that it has had, or that are in delivery.'),
    next_day_at: Timestamp({ description: 'When the next day begins.' }),
  }),
  in_delivery: count('Messages in delivery.'),
  waiting_lanes: count('Destinations whose mail waits for the provider; each account has its own.'),
  last_hour: traffic('The last hour, since the start of the service.'),
  last_day: traffic('The last day, since the start of the service.'),
})
export type ServerProvider = Static<typeof ServerProvider>
export const ProviderResumeResult = Type.Object({
  provider: text('Name of the provider.'),
  resumed: count('Suspensions and lowered rates that were lifted.'),
})

export const DeliveryAlert = Type.Object({
  provider: text('Name in the list of providers, or the mail hosts of a site without an entry.'),
  source: Nullable(Type.String(), { description: 'Our outgoing address; null: it is not known.' }),
  rule: text('Rule of the reply.'),
  category: text('reputation or authentication, or another category of bounces.'),
  reply: text('The last reply.'),
  count: count('Attempts that ended with such a reply.'),
  first_at: Timestamp({ description: 'When the first one came.' }),
  last_at: Timestamp({ description: 'When the last one came.' }),
  advice: text('What to do.'),
})
export type DeliveryAlert = Static<typeof DeliveryAlert>

export const DoctorFinding = Type.Object({
  check: text('Name of the check.'),
  status: StringEnum(['ok', 'warning', 'failure', 'skipped'], {
    description: '`skipped`: the check does not apply, or could not be made.',
  }),
  subject: Nullable(Type.String(), {
    description: 'What it is about, if a check looks at several things, such as an address, a domain or a webhook.',
  }),
  message: text('What was found.'),
  fix: Nullable(Type.String(), { description: 'What to do; null: nothing.' }),
})
export type DoctorFinding = Static<typeof DoctorFinding>

export const DoctorFindings = Type.Object({
  checked_at: Nullable(Timestamp(), { description: 'When the checks ended; null: they have not run since the start.' }),
  findings: Type.Array(DoctorFinding, { description: 'By check, in a fixed order.' }),
})
export type DoctorFindings = Static<typeof DoctorFindings>

export const ReceivedEntry = Type.Object({
  id: text('Id of the entry.'),
  mail_from: text('Sender of the envelope; empty for the null reverse-path.'),
  rcpt_to: Type.Array(Type.String(), { description: 'Recipients of the envelope; the first 20.' }),
  source_ip: text('Address from which it came.'),
  size_bytes: bytes('Size of the message'),
  is_suspect: Type.Boolean({
    description: 'Whether the process ended with it in progress: it is then processed alone.',
  }),
  received_at: Timestamp({ description: 'When it arrived.' }),
})
export type ReceivedEntry = Static<typeof ReceivedEntry>

export const UnparsedQuery = Type.Object({
  after: Type.Optional(
    Type.String({ maxLength: 50, pattern: '^\\d{1,15}-\\d{1,15}$', description: '`next_after` of the previous page.' }),
  ),
})
export const UnparsedMessage = Type.Object({
  id: Uuid({ description: 'Id of the message.' }),
  kind: text('`inbound` for a route or a domain; `mailbox` for an agent mailbox.'),
  to: text('Recipients.'),
  from: text('Sender.'),
  subject: text('Subject.'),
  parse_error: text('Why it could not be parsed.'),
  received_at: Timestamp({ description: 'When it arrived.' }),
})
export type UnparsedMessage = Static<typeof UnparsedMessage>
export const RetryResult = Type.Object({
  id: Uuid({ description: 'Id of the message.' }),
  parse_error: Nullable(Type.String(), { description: 'Why it still cannot be parsed; null: it was parsed.' }),
})
export type RetryResult = Static<typeof RetryResult>

const MonthBytes = Type.Object({
  month: text('Month, such as 2026-11.'),
  bytes: bytes('Size of its files'),
  free_bytes: bytes('Free space in them'),
})
const AccountUsage = Type.Object({
  id: Uuid({ description: 'Id of the account.' }),
  name: text('Name of the account.'),
  used_bytes: bytes('What it uses'),
  kept_bytes: bytes('Of this, what is deleted only for its age'),
  share_bytes: Nullable(Type.Integer(), { description: 'Its fair share in bytes; null: it uses no more than that.' }),
  goes_before: Nullable(Timestamp(), {
    description: 'The next run deletes its data from before this time; null: it deletes none.',
  }),
})
const KindUsage = Type.Object({
  kind: text('content, events, inbound, logs or audit.'),
  used_bytes: bytes('What is used'),
  max_bytes: Nullable(Type.Integer(), { description: 'Limit in bytes; null: none.' }),
  max_days: count('How many days it is retained.'),
  oldest_at: Nullable(Timestamp(), { description: 'Time of the oldest that can be deleted; null: there is none.' }),
  goes_at: Nullable(Timestamp(), { description: 'When the oldest is deleted for its age.' }),
  over_before: Nullable(Timestamp(), {
    description: 'Over its limit: the next run deletes data from before this time; null: it is not.',
  }),
  accounts: Type.Array(AccountUsage, { description: 'The accounts that use most, and all above their share.' }),
})
const DiskUse = Type.Object({
  at: Timestamp({ description: 'When it was measured.' }),
  data_dir: text('The data directory.'),
  total_bytes: bytes('Size of the data directory'),
  database: part('The database.', {
    file_bytes: bytes('Size of the file'),
    wal_bytes: bytes('Size of the write-ahead log'),
    free_bytes: bytes('Free pages, which the next rows reuse'),
    groups: Type.Record(Type.String(), Type.Integer(), { description: 'Size in bytes of each group of tables.' }),
  }),
  content: Type.Array(MonthBytes, { description: 'Bodies and attachments, by month.' }),
  raw_mail: Type.Array(MonthBytes, { description: 'Received messages in their raw form, by month.' }),
  captures_bytes: bytes('Captured mail'),
  imports_bytes: bytes('Files that wait for their import'),
  other_bytes: bytes('Other files'),
  kinds: Type.Array(KindUsage, { description: 'What is retained, for how long, and what is deleted next.' }),
  not_stored: Type.Array(
    Type.Object({
      id: Uuid({ description: 'Id of the account.' }),
      name: text('Name of the account.'),
      messages: count('Number of messages.'),
    }),
    { description: 'Messages that were dropped, because no route matched and their domain had too much of such mail.' },
  ),
})
export const ServerDisk = Type.Object({
  read_at: Timestamp({ description: 'When this was read.' }),
  file_system: part('The disk, as it is now.', FILE_SYSTEM_FIELDS),
  is_measuring: Type.Boolean({ description: 'Whether the use is being measured, which reads the whole database.' }),
  use: Nullable(DiskUse, { description: 'The use as last measured; null: it was not measured yet.' }),
})
export type ServerDisk = Static<typeof ServerDisk>

export const ACCOUNT_STATES = ['active', 'paused', 'disabled'] as const
export const AccountsQuery = Type.Object({
  ...PAGE_FIELDS,
  q: filter('Part of the name or address, or the id of an account.'),
  state: Type.Optional(StringEnum(ACCOUNT_STATES, { description: 'Only accounts in this state.' })),
})
const ACCOUNT_FIELDS = {
  id: Uuid({ description: 'Id of the account.' }),
  name: text('Name of the account.'),
  email: text('Address of its owner.'),
  plan: text('Plan of the account.'),
  parent_account_id: Nullable(Uuid(), { description: 'Id of the parent account; null: it is not a sub-account.' }),
  disabled_at: Nullable(Timestamp(), { description: 'When its parent disabled it; null: it did not.' }),
  monthly_quota: Nullable(Type.Integer(), { description: 'Recipients per month; null: unlimited.' }),
  used_this_month: count('Recipients used in this month.'),
  paused_at: Nullable(Timestamp(), { description: 'When it was paused; null: it is not paused.' }),
  created_at: Timestamp({ description: 'When it was created.' }),
}
export const OperatorAccount = Type.Object(ACCOUNT_FIELDS)
export type OperatorAccount = Static<typeof OperatorAccount>

const POOL_FIELDS = {
  pool: Nullable(Type.String(), {
    description: 'Pool of outgoing addresses of its mail; null: that of its parent, else the addresses without a pool.',
  }),
  stream_pools: Type.Array(Type.Object({ stream: text('Slug of the stream.'), pool: text('Its pool.') }), {
    description: 'The streams with a pool of their own.',
  }),
}
export const AccountPools = Type.Object(POOL_FIELDS)
export type AccountPools = Static<typeof AccountPools>
export const PoolRequest = StrictObject({
  pool: Nullable(Type.String({ maxLength: MAX_FILTER_LENGTH }), {
    description: 'Name of a pool in TASSIS_OUTBOUND_IPS; null: none.',
  }),
  stream: filter('Slug of a stream: only its mail.'),
})

const STATUS_FIELDS = {
  ...ACCOUNT_FIELDS,
  ...POOL_FIELDS,
  stopped: Nullable(Type.String(), { description: 'Why it may not send, a sentence; null: it may.' }),
  paused: nullablePart('Its pause, or that of its parent; null: neither is paused.', {
    since: Timestamp({ description: 'Since when.' }),
    source: text('What paused it: reputation, scam_classifier, registration_burst or admin.'),
    reason: text('Why, a sentence that its users see.'),
  }),
  held: count('Recipients whose mail is held, as far as they are counted.'),
  judged: Type.Boolean({ description: 'Whether its rates can pause it, which depends on its plan.' }),
  last_24_hours: part('Since it was resumed, at most 24 hours.', {
    delivered: count('Delivered recipients.'),
    bounced: count('Bounced recipients.'),
    complained: count('Complaints from verified feedback loops.'),
    bounce_percent: Nullable(Type.Number(), { description: 'Bounces per 100; null: nothing was sent.' }),
    complaints_per_mille: Nullable(Type.Number(), { description: 'Complaints per 1,000; null: none delivered.' }),
  }),
  thresholds: part('When it is paused automatically.', {
    minimum_volume: count('Recipients from which on the rates are checked.'),
    bounce_percent: Type.Number({ description: 'Bounces per 100 at which it is paused.' }),
    complaints_per_mille: Type.Number({ description: 'Complaints per 1,000 at which it is paused.' }),
  }),
}
export const OperatorAccountStatus = Type.Object(STATUS_FIELDS)
export type OperatorAccountStatus = Static<typeof OperatorAccountStatus>
export const OperatorAccountDetail = Type.Object({
  ...STATUS_FIELDS,
  last_30_days: part('Complaint rate of 30 days.', {
    delivered: count('Delivered recipients, without sandbox mail.'),
    complaints: count('Complaints.'),
    rate: Nullable(Type.Number(), { description: 'Complaints per delivered recipient; null: none delivered.' }),
  }),
  members: Type.Array(Type.Object({ email: text('Address of the user.'), role: text('Role of the user.') }), {
    description: 'Its team, at most 20.',
  }),
})
export type OperatorAccountDetail = Static<typeof OperatorAccountDetail>

export const PauseRequest = StrictObject({
  reason: Type.String({
    minLength: 1,
    maxLength: MAX_PAUSE_REASON_LENGTH,
    description: 'Why, in one sentence; the users of the account read it.',
  }),
})
export const ResumeResult = Type.Object({
  account: text('Name of the account.'),
  released: count('Recipients whose mail is released, as far as they are counted.'),
  released_is_at_least: Type.Boolean({ description: 'Whether there may be more.' }),
  still_stopped: Nullable(Type.String(), { description: 'Why it still may not send; null: it may.' }),
})
export type ResumeResult = Static<typeof ResumeResult>

export const OfAccountQuery = Type.Object({ ...PAGE_FIELDS, account_id: filter('Only of the account with this id.') })

export const Finding = Type.Object({
  id: text('Id of the finding.'),
  account_id: Uuid({ description: 'Id of the account.' }),
  account: text('Name of the account.'),
  source: text('What found it: reputation, scam_classifier, registration_burst or admin.'),
  reason: text('The finding, a sentence.'),
  paused: Type.Boolean({ description: 'Whether it paused the account.' }),
  email_id: Nullable(Uuid(), { description: 'Id of the email; null: none, or it is deleted.' }),
  detail: Nullable(Type.Unknown(), { description: 'Figures, links and words of the finding.' }),
  created_at: Timestamp({ description: 'When it was found.' }),
})
export type Finding = Static<typeof Finding>

export const OperatorComplaint = Type.Object({
  id: text('Id of the complaint.'),
  account_id: Nullable(Uuid(), { description: 'Id of the account; null: it is deleted.' }),
  account: Nullable(Type.String(), { description: 'Name of the account; null: it is deleted.' }),
  email_id: Nullable(Uuid(), { description: 'Id of the email; null: it is deleted.' }),
  complainer: Nullable(Type.String(), { description: 'Address that complained; null: the report does not name it.' }),
  feedback_type: text('abuse, fraud, virus, not-spam or other.'),
  feedback_loop: Nullable(Type.String(), {
    description: 'Provider that provably sent the report; null: no proof, so it pauses no account.',
  }),
  reporter: Nullable(Type.String(), { description: 'Program or server that sent the report.' }),
  created_at: Timestamp({ description: 'When it arrived.' }),
})
export type OperatorComplaint = Static<typeof OperatorComplaint>

export const ReportsQuery = Type.Object({ ...PAGE_FIELDS, domain: filter('Only reports about this domain.') })
const REPORT_FIELDS = {
  id: Uuid({ description: 'Id of the report.' }),
  kind: text('`dmarc` or `tls`.'),
  account: Nullable(Type.String(), { description: 'Name of the account that has the domain; null: none has.' }),
  domain: text('Domain that it is about.'),
  organisation: text('Who reports.'),
  report_id: text('Id that the reporter gave it.'),
  period_start: Nullable(Timestamp(), { description: 'Start of its period.' }),
  period_end: Nullable(Timestamp(), { description: 'End of its period.' }),
  size_bytes: bytes('Size of its content'),
  received_at: Timestamp({ description: 'When it arrived.' }),
}
export const DomainReport = Type.Object(REPORT_FIELDS)
export type DomainReport = Static<typeof DomainReport>
export const DomainReportDetail = Type.Object({
  ...REPORT_FIELDS,
  content: Type.String({ description: 'The unpacked XML or JSON; its first part when it is very long.' }),
  is_truncated: Type.Boolean({ description: 'Whether `content` is only the first part.' }),
})
export type DomainReportDetail = Static<typeof DomainReportDetail>

export const MAIL_KINDS = ['postmaster', 'abuse', 'bounce', 'complaint', 'unsubscribe', 'report', 'other'] as const
export const MailQuery = Type.Object({
  ...PAGE_FIELDS,
  kind: Type.Optional(StringEnum(MAIL_KINDS, { description: 'Only mail of this kind.' })),
})
const MAIL_FIELDS = {
  id: Uuid({ description: 'Id of the message.' }),
  kind: text('postmaster, abuse, bounce, complaint, unsubscribe, report or other.'),
  reason: text('Why the operator gets it.'),
  mail_from: text('Sender of the envelope; empty for the null reverse-path.'),
  rcpt_to: Type.Array(Type.String(), { description: 'Recipients of the envelope.' }),
  from: Nullable(Type.String(), { description: 'From as in the header; null: none.' }),
  subject: text('Subject.'),
  source_ip: text('Address from which it came.'),
  size_bytes: bytes('Size of the message'),
  received_at: Timestamp({ description: 'When it arrived.' }),
}
export const OperatorMailRecord = Type.Object(MAIL_FIELDS)
export type OperatorMailRecord = Static<typeof OperatorMailRecord>
export const OperatorMailDetail = Type.Object({
  ...MAIL_FIELDS,
  text: Nullable(Type.String(), {
    description: 'Its text, as far as it is shown; null: none, or it cannot be parsed.',
  }),
  source: Nullable(Type.String(), { description: 'Its source, the first part; null: it is no longer stored.' }),
})
export type OperatorMailDetail = Static<typeof OperatorMailDetail>

export const SettingRecord = Type.Object({
  topic: text('What it belongs to.'),
  variable: text('Name of the environment variable.'),
  toml_key: text('Name in the TOML file.'),
  value: text('Its value; `(set)` in place of a secret.'),
  source: text('Where the value comes from: environment, file or default.'),
  allowed: text('Which values are allowed.'),
  description: text('What it does.'),
})
export type SettingRecord = Static<typeof SettingRecord>
