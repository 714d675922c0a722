/** @module /v1/operator: the state of the process as a whole: health, what the checks found, settings. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { authenticated, commandRoute, operatorRoute } from '#features/core/app/http.ts'
import { showView } from '#features/core/audit-logs/audit.ts'
import type { RunningSubmission } from '#features/drop-in/submission/start.ts'
import { readFileSystem } from '#features/lifecycle/retention/disk.ts'
import { FILE_SYSTEM_FIELDS } from '#features/lifecycle/retention/disk-routes.ts'
import { countQueueEntries } from '#features/receiving/inbound/process/queue.ts'
import { getLaneReader } from '#features/sending/delivery/control/queue-view.ts'
import type { RunningDelivery } from '#features/sending/delivery/start.ts'
import { createReadiness } from '#features/setup/health/readiness.ts'
import { countWaitingWebhooks } from '#features/webhooks/webhooks/manage/webhooks.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { dataBody, isoTime } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import type { SettingReport } from '#platform/settings/config.ts'
import type { OpenedApp } from './create.ts'
import { toSettingRecord } from './settings.ts'

/** What runs in this process. */
export interface ServiceState {
  /** These two are undefined until they have started. */
  readonly delivery: () => RunningDelivery | undefined
  readonly submission: () => RunningSubmission | undefined
  readonly isStopping: () => boolean
  /** Undefined until the checks of `tassis doctor` have run. */
  readonly doctorReport: () => DoctorFindings | undefined
  /** Of this program with its commit, for display. */
  readonly version: string
}

export interface StatusRouteOptions extends ServiceState {
  readonly runDoctor: () => Promise<DoctorFindings>
  /** The address of the HTTP API on this machine, once the service listens. */
  readonly url: () => string | undefined
  /** Settings with their sources; empty when the service does not know them. */
  readonly settings: readonly SettingReport[]
}

export const operatorStatusRoutes = (opened: OpenedApp, options: StatusRouteOptions) => {
  const { app } = opened
  const { doctorReport, runDoctor, settings } = options
  const readHealth = createHealthReader(opened, options)
  return new Elysia({ prefix: '/v1/operator' })
    .use(authenticated)
    .get('/health', showView(app, 'health', readHealth), {
      response: S.DataBody(ServerHealth),
      detail: operatorRoute('Get the state of the service'),
    })
    .get(
      '/doctor',
      showView(app, 'health', () => doctorReport() ?? { checked_at: null, findings: [] }),
      {
        response: S.DataBody(DoctorFindings),
        detail: operatorRoute(
          'Get what the checks of the service found',
          'The last run of the checks of `tassis doctor`, which the service makes every hour: names, network, machine and state.',
        ),
      },
    )
    .post('/doctor/run', async () => dataBody(await runDoctor()), {
      response: S.DataBody(DoctorFindings),
      detail: commandRoute('Run the checks of the service', 'Responds when they have ended, after at most some 15 s.'),
    })
    .get(
      '/settings',
      showView(app, 'settings', () => settings.map(toSettingRecord)),
      {
        response: S.DataBody(Type.Array(SettingRecord)),
        detail: operatorRoute('List the settings', 'With their source; secrets are not shown.'),
      },
    )
}

const sql = prepareStatements((db) => ({
  accounts: db.prepare<{ total: number; paused: number }, []>(
    'SELECT COUNT(*) AS total, COUNT(paused_at) AS paused FROM accounts WHERE deleted_at IS NULL',
  ),
}))

function createHealthReader(
  { app }: OpenedApp,
  { delivery, submission, isStopping, version, url }: StatusRouteOptions,
): () => Promise<ServerHealth> {
  const readiness = createReadiness(app, isStopping)
  const readLanes = getLaneReader(app)
  const startedAt = app.clock.now()
  return async () => {
    const problems = await readiness()
    const { config, db } = app
    const lanes = await readLanes()
    const webhooks = countWaitingWebhooks(db)
    const submissionAddrs = [config.submissionAddr, config.submissionTlsAddr].filter((addr) => addr !== '')
    const running = submission()
    const scheduler = delivery()?.scheduler
    return {
      read_at: isoTime(app.clock.now()),
      version,
      started_at: isoTime(startedAt),
      hostname: config.hostname,
      public_url: config.publicUrl,
      url: url() ?? null,
      delivery: config.delivery,
      is_delivering: scheduler !== undefined,
      inbound_addr: config.inboundAddr === '' ? null : config.inboundAddr,
      submission: submissionAddrs.length === 0 || !running ? null : { addrs: submissionAddrs, ...running.stats() },
      problems: problems.map(({ field, message }) => ({ field, message })),
      memory_bytes: process.memoryUsage.rss(),
      disk: readFileSystem(config),
      queue: {
        waiting: lanes.reduce((sum, { waiting }) => sum + waiting, 0),
        lanes: lanes.length,
        in_flight: scheduler?.inFlight ?? 0,
        first_due_at: lanes[0] ? isoTime(lanes[0].firstAt) : null,
      },
      received: countQueueEntries(db),
      webhooks: { waiting: webhooks.waiting, deactivated: webhooks.off_by_failures },
      accounts: sql(db).accounts.get() ?? { total: 0, paused: 0 },
    }
  }
}

export const ServerHealth = Type.Object({
  read_at: S.Timestamp({ description: 'When this was read.' }),
  version: S.Text('Version of the service.'),
  started_at: S.Timestamp({ description: 'When the service started.' }),
  hostname: S.Text('Name of the host in SMTP and DNS.'),
  public_url: S.Text('URL under which browsers reach the service.'),
  url: S.TextOrNull('Address of the HTTP API on this machine; null: no service runs.'),
  delivery: S.Text('Delivery mode: direct, relay or capture.'),
  is_delivering: Type.Boolean({ description: 'Whether mail is being delivered.' }),
  inbound_addr: S.TextOrNull('Address where mail is received; null: none.'),
  submission: S.NullablePart('Mail submission by SMTP; null: off.', {
    addrs: Type.Array(Type.String(), { description: 'Addresses where programs submit mail by SMTP.' }),
    sessions: S.Count('Open sessions, at most 10 seconds ago.'),
    accepted: S.Count('Messages accepted since the start of the service.'),
    deferred: S.Count('Messages that got a 4xx since then; programs send them again.'),
    rejected: S.Count('Messages that got a 5xx since then.'),
    failed_logins: S.Count('Failed logins since then.'),
  }),
  problems: Type.Array(
    Type.Object({ field: S.Text('The part that is not ready.'), message: S.Text('What is wrong.') }),
    {
      description: 'Why the service cannot take work, as /readyz reports; empty: it can.',
    },
  ),
  memory_bytes: S.Bytes('Memory of the process'),
  disk: S.Part('The disk.', FILE_SYSTEM_FIELDS),
  queue: S.Part('The mail queue.', {
    waiting: S.Count('Recipients whose mail waits for delivery.'),
    lanes: S.Count('Destinations of this mail; each account has its own.'),
    in_flight: S.Count('Recipients to whom mail is being delivered.'),
    first_due_at: S.Nullable(S.Timestamp(), { description: 'When the earliest is due; null: none waits.' }),
  }),
  received: S.Count('Received messages that are not processed yet.'),
  webhooks: S.Part('Webhooks of all accounts.', {
    waiting: S.Count('Deliveries that wait for an attempt.'),
    deactivated: S.Count('Webhooks deactivated by failures.'),
  }),
  accounts: S.Part('Accounts.', {
    total: S.Count('Number of accounts.'),
    paused: S.Count('Number of those that are paused.'),
  }),
})
export type ServerHealth = Static<typeof ServerHealth>

export const Finding = Type.Object({
  check: S.Text('Name of the check.'),
  status: S.StringEnum(['ok', 'warning', 'failure', 'skipped'], {
    description: '`skipped`: the check does not apply, or could not be made.',
  }),
  subject: S.TextOrNull(
    'What it is about, if a check looks at several things, such as an address, a domain or a webhook.',
  ),
  message: S.Text('What was found.'),
  fix: S.TextOrNull('What to do; null: nothing.'),
})
export type Finding = Static<typeof Finding>

export const DoctorFindings = Type.Object({
  checked_at: S.TimeOrNull('When the checks ended; null: they have not run since the start.'),
  findings: Type.Array(Finding, { description: 'By check, in a fixed order.' }),
})
export type DoctorFindings = Static<typeof DoctorFindings>

export const SettingRecord = Type.Object({
  topic: S.Text('What it belongs to.'),
  variable: S.Text('Name of the environment variable.'),
  toml_key: S.Text('Name in the TOML file.'),
  value: S.Text('Its value; `(set)` in place of a secret.'),
  source: S.Text('Where the value comes from: environment, file or default.'),
  allowed: S.Text('Which values are allowed.'),
  description: S.Text('What it does.'),
})
