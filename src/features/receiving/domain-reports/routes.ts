/** @module GET /v1/domains/{id}/reports: what DMARC and TLS reports of other hosts say about a domain. */
import { type TProperties, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { dayOf } from '#features/core/events/daily-stats.ts'
import { getDomain } from '#features/setup/domains/domains.ts'
import { dataBody, isoTime } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import { days } from '#platform/units.ts'
import { DMARC_CLASSES } from './assess.ts'
import { FINDING_LEVELS, REPORT_CLASSES, summariseReports } from './findings.ts'

const PERIOD_DAYS = { minimum: 1, maximum: 90, default: 30 }

const COUNTS = Object.fromEntries(REPORT_CLASSES.map((name) => [name, S.Count(`\`${name}\`.`)]))
const Day = S.Text('UTC day, YYYY-MM-DD.')
const listOf = <T extends TProperties>(description: string, fields: T) =>
  Type.Array(Type.Object(fields), { description })

const DomainReports = Type.Object({
  domain: S.Text('The domain; mail of subdomains that are not verified here counts too.'),
  from: Day,
  to: Day,
  findings: listOf('What the reports mean, the most urgent first.', {
    key: S.Text('The same for the same cause at another time.'),
    level: S.StringEnum(FINDING_LEVELS, { description: '`bad` is mailed to the owners.' }),
    text: S.Text('Sentences.'),
  }),
  advice: S.Part('Whether the DMARC policy may be raised.', {
    next: S.TextOrNull('`quarantine` or `reject`; null: the policy is the strictest.'),
    is_safe: Type.Boolean({ description: 'Whether nothing is missing.' }),
    text: S.Text('A sentence.'),
    missing: Type.Array(Type.String(), { description: 'What must be done or known first.' }),
  }),
  policy: Type.Record(Type.String(), Type.String(), { description: 'Tags of the DMARC policy last found in DNS.' }),
  totals: S.Part(
    'Messages: `aligned` ours that pass DMARC, `broken` ours that fail, `other` sent elsewhere that pass, `service` of a known service that fail, `foreign` of others that fail. TLS sessions: `tls_ok`, `tls_failed`.',
    COUNTS,
  ),
  sources: listOf('The 100 largest, the largest first.', {
    class: S.StringEnum(DMARC_CLASSES, { description: 'As in `totals`.' }),
    cause: S.Text('Why, such as `forwarded` or `missing_key`; empty: nothing is remarkable.'),
    name: S.Text('Service or address; empty: several addresses.'),
    sender: S.Text('The service or domain that its mail authenticates; empty: none.'),
    addresses: S.Count('Number of addresses.'),
    count: S.Count('Messages.'),
    rejected: S.Count('Of them quarantined or rejected.'),
    last_day: Day,
    text: S.Text('What it means.'),
  }),
  series: listOf('Days with reports, oldest first.', { day: Day, ...COUNTS }),
  reporters: listOf('The 100 that counted most.', {
    organisation: S.Text('Authenticated domain that sent the reports; of imported ones the name that they state.'),
    kind: S.Text('`dmarc` or `tls`.'),
    reports: S.Count('Counted reports.'),
    count: S.Count('Messages or sessions.'),
  }),
  tls: S.Part('TLS sessions of senders with our server.', {
    ok: S.Count('Sessions that succeeded.'),
    failed: S.Count('Sessions that failed.'),
    failures: listOf('By cause, the most frequent first.', {
      cause: S.Text('A result type of RFC 8460 §4.3, or `unspecified`.'),
      receiver: S.Text('Host that received; empty: not stated.'),
      count: S.Count('Sessions.'),
      text: S.Text('What it means and how to mend it.'),
    }),
  }),
})

const formatDay = (day: number): string => isoTime(days(day)).slice(0, 10)

export const domainReportRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/domains', tags: ['Domains'] }).use(authenticated).get(
    '/:id/reports',
    ({ actor, params, query }) => {
      const found = getDomain(app.db, actor.accountId, params.id)
      const toDay = dayOf(app.clock.now())
      const fromDay =
        toDay - S.parseQueryInteger('days', query.days, { ...PERIOD_DAYS, fallback: PERIOD_DAYS.default }) + 1
      const summary = summariseReports(app.db, found, fromDay, toDay)
      return dataBody({ ...summary, domain: found.domain, from: formatDay(fromDay), to: formatDay(toDay) })
    },
    {
      params: Type.Object({ id: Type.String({ description: 'Id of the domain.' }) }),
      query: Type.Object({
        days: S.QueryInteger({ ...PERIOD_DAYS, description: 'Days up to today.' }),
      }),
      response: S.DataBody(DomainReports),
      detail: describeWith('domains:read')(
        'Read what reports say about a domain',
        'DMARC aggregate and TLS reports of other hosts, joined with the own mail of the domain: sources, failures by cause, and whether the DMARC policy may be raised.',
      ),
    },
  )
