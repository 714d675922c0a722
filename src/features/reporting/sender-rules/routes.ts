/**
 * @module `GET /v1/domains/{id}/rules`, the ledger of a domain: each rule of each receiver with its state, who saw it, and
 * what to do; and the public badge. The receiver's own word goes before ours: Google's compliance status decides about
 * the rules of Gmail that we see as met or cannot see.
 */
import { type TInteger, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { trimTrailingSlashes } from '#features/sending/tracking/tokens.ts'
import { type Domain, findDomainById, findDomainByName, getDomain } from '#features/setup/domains/domains.ts'
import { findCoveringDomain } from '#features/setup/domains/sending.ts'
import { storeNewest } from '#platform/bounded-map.ts'
import { attempt } from '#platform/errors.ts'
import { dataBody, isoTime } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import { minutes } from '#platform/units.ts'
import { type GoogleReport, readGoogleReport } from './receiver-data.ts'
import data from './rules.json' with { type: 'json' }
import {
  type Facts,
  fill,
  judgeComplaints,
  MAX_AGE_MS,
  READERS,
  type Receiver,
  RULE_STATES,
  type RuleState,
  type RuleWitnesses,
  readPeak,
  say,
  type Verdict,
} from './states.ts'

/** Near the volume of bulk senders, their rules are no longer left aside. */
const NEAR_BULK = 0.8

/** Asks nobody but the database. Takes some 25 ms for an account that sends much every day. */
export function readLedger(app: Pick<App, 'db' | 'config' | 'clock'>, witnesses: RuleWitnesses, registered: Domain) {
  const { db } = app
  // A domain that is not verified is sent under one above it, which signs its mail.
  const covering = findCoveringDomain(db, registered)
  const domain = (covering && findDomainByName(db, registered.accountId, covering)) || registered
  const facts: Facts = { app, witnesses, now: app.clock.now(), domain }
  const google = readGoogleReport(db, domain.id)
  const receivers = data.receivers.map((receiver) => {
    const rules = judge(facts, receiver, receiver.id === 'gmail' ? google : undefined)
    return { ...receiver, rules, counts: count(rules) }
  })
  const rules = receivers.flatMap((receiver) => receiver.rules)
  const counts = count(rules)
  const broken = rules.filter(({ state }) => state === 'broken').map(({ title }) => title)
  // For somebody who knows nothing of mail.
  const isFine = counts.broken + counts.at_risk === 0 && domain.verifiedAt !== null
  const summary = fill(isFine ? 'summary fine' : broken.length > 0 ? 'summary broken' : 'summary', {
    ...counts,
    domain: registered.domain,
    binding: countBinding(counts),
    receivers: receivers.length,
    titles: [...new Set(broken)].join(', '),
  })
  return { domain: registered.domain, receivers, counts, summary }
}

const count = (rules: readonly Verdict[]) =>
  Object.fromEntries(RULE_STATES.map((name) => [name, rules.filter(({ state }) => state === name).length])) as Counts
type Counts = Record<RuleState, number>

/** Rules that bind the sender; those that nobody can know are among them. */
const countBinding = ({ met, unknown, at_risk, broken }: Counts): number => met + unknown + at_risk + broken

function judge(facts: Facts, receiver: Receiver, google: GoogleReport | undefined) {
  const { bulk_from: bulk, domains, name } = receiver
  const { app, domain, now } = facts
  const peak = bulk > 0 ? readPeak(app.db, domain.accountId, now, domains) : 0
  return receiver.rules.map(({ check, binds, text }) => {
    const { title, fix, google: requirement } = data.checks[check as keyof typeof data.checks]
    const own = READERS[check]?.(facts, receiver) ?? say('unknown', 'nobody', 'nobody', { fix })
    // What is met is shown as met, whether it is demanded or not.
    const isLeftAside = binds === 'bulk' && peak < bulk * NEAR_BULK && own.state !== 'met'
    const values = { bulk, peak, name, evidence: own.evidence }
    const bound = isLeftAside ? say('not_applicable', 'counters', 'not bulk', values, own.seen_at) : own
    const verdict = google ? addGoogle(now, bound, google, requirement) : bound
    const state = binds === 'nobody' && verdict.state === 'broken' ? 'at_risk' : verdict.state
    return { check, title, text, binds, ...verdict, state, fix: state === 'broken' || state === 'at_risk' ? fix : '' }
  })
}

/** Google's word about a requirement, while it is at most three days old; ours stays where we see what is wrong. */
function addGoogle(now: number, own: Verdict, { askedAt, compliance, spamRate }: GoogleReport, name: string): Verdict {
  const said = compliance[name]
  if (said === undefined) return own
  const rate = name === 'USER_REPORTED_SPAM_RATE' ? spamRate : null
  const percent = rate === null ? '' : `, highest spam rate of the last 7 days ${(rate * 100).toFixed(2)} %`
  const values = {
    said: `${said.toLowerCase().replace('_', ' ')}${percent}`,
    evidence: own.evidence,
    at: isoTime(askedAt),
  }
  if (now - askedAt > MAX_AGE_MS) return say(own.state, own.witness, 'google old', values, own.seen_at)
  const state = said === 'NEEDS_WORK' ? 'broken' : judgeComplaints(rate ?? 0)
  const isOurs = own.state === 'broken' || (own.state === 'at_risk' && state !== 'broken')
  return isOurs ? own : say(state, 'google', 'google', values, values.at)
}

const COUNTS = Type.Object(
  Object.fromEntries(RULE_STATES.map((state) => [state, S.Count(`Rules that are \`${state}\`.`)])) as Record<
    RuleState,
    TInteger
  >,
  { title: 'SenderRuleCounts', description: 'Number of rules by state; all but `not_applicable` bind the sender.' },
)
const RULE = Type.Object(
  {
    check: S.Text('Name of what it demands, the same for all receivers, such as `spf`.'),
    title: S.Text('What it demands, in a few words.'),
    text: S.Text('What the receiver says, in our words.'),
    binds: S.Text(
      '`all` senders, `bulk` ones, who send much, or `nobody`: it is only advised, so it is never `broken`.',
    ),
    state: S.StringEnum(RULE_STATES, { description: '`unknown`: nobody here can know, which is not met.' }),
    witness: S.Text(
      'Who saw it: `dns` as last checked, `counters` of the account, `doctor`, the checks of the service, `tassis`, which does it so with each message, `dmarc_reports`, `google` (Postmaster Tools), `snds` of Microsoft, or `nobody`.',
    ),
    evidence: S.Text('What the witness saw.'),
    seen_at: S.TimeOrNull('When the witness saw it; null: now, or never.'),
    fix: S.Text('How to meet it; empty unless it is `broken` or `at_risk`.'),
  },
  { title: 'SenderRule' },
)
const DomainRules = Type.Object(
  {
    domain: S.Text('Name of the domain.'),
    summary: S.Text('All of it in a few sentences.'),
    badge_url: S.Text('Public address of an SVG that says how many rules are met; it cannot be guessed.'),
    counts: COUNTS,
    receivers: Type.Array(
      Type.Object(
        {
          id: S.Text('Short name of the receiver, such as `gmail`.'),
          name: S.Text('Name of the receiver.'),
          domains: Type.Array(Type.String(), { description: 'Domains of its mailboxes.' }),
          bulk_from: S.Count('Messages a day from which rules for `bulk` senders bind; 0: it names no number.'),
          feedback_loop: S.Text('Name of its feedback loop; empty: it has none that is known here.'),
          url: S.Text('Where its rules are.'),
          text_date: S.Text('Of which date they are.'),
          read_on: S.Text('When they were read.'),
          read_at: S.Text('The page where they were read.'),
          counts: COUNTS,
          rules: Type.Array(RULE, { description: 'Its rules.' }),
        },
        { title: 'SenderRuleReceiver' },
      ),
      { description: 'By receiver.' },
    ),
  },
  { title: 'DomainRules' },
)

const BADGE_PATH = '/badges'
const BADGE_TTL_MS = minutes(10)
const MAX_CACHED_BADGES = 1000

/** The id of the domain is sealed, so that nobody can guess an address. */
function formatBadgeUrl({ config, keys }: App, { id }: Domain): string {
  const token = Buffer.from(keys.sealDeterministically(String(id), 'badge')).toString('base64url')
  return `${trimTrailingSlashes(config.publicUrl)}${BADGE_PATH}/${token}.svg`
}

export const senderRuleRoutes = (app: App, witnesses: RuleWitnesses) =>
  new Elysia({ prefix: '/v1/domains', tags: ['Domains'] }).use(authenticated).get(
    '/:id/rules',
    ({ actor, params }) => {
      const domain = getDomain(app.db, actor.accountId, params.id)
      return dataBody({ ...readLedger(app, witnesses, domain), badge_url: formatBadgeUrl(app, domain) })
    },
    {
      params: Type.Object({ id: Type.String({ description: 'Id of the domain.' }) }),
      response: S.DataBody(DomainRules),
      detail: describeWith('domains:read')(
        'Get the rules of receivers for a domain',
        'Each rule of Gmail, Yahoo, Outlook.com and other receivers for senders, with its state for this domain, who saw it, and what to do. Asks nobody: it shows what was last seen. Rates are those of all mail of the account.',
      ),
    },
  )

/** Public: whoever has the address sees two numbers, at most ten minutes old. */
export function badgePages(app: App, witnesses: RuleWitnesses) {
  const badges = new Map<number, { readonly at: number; readonly svg: string }>()
  const draw = (id: number): string | undefined => {
    const now = app.clock.monotonicMs()
    const cached = badges.get(id)
    if (cached && now - cached.at < BADGE_TTL_MS) return cached.svg
    const domain = findDomainById(app.db, id)
    if (!domain) return undefined
    const { counts } = readLedger(app, witnesses, domain)
    const svg = drawBadge(`${counts.met} of ${countBinding(counts)} met`, counts.broken > 0 ? '#b45309' : '#1d4ed8')
    storeNewest(badges, id, { at: now, svg }, MAX_CACHED_BADGES)
    return svg
  }
  return new Elysia().get(
    `${BADGE_PATH}/:file`,
    ({ params }) => {
      const token = Buffer.from(params.file.replace(/\.svg$/, ''), 'base64url')
      const id = attempt(() => app.keys.unsealText(token, 'badge'))
      const svg = id && draw(Number(id))
      if (!svg) return new Response('There is no such badge.\n', { status: 404 })
      return new Response(svg, {
        headers: {
          'content-type': 'image/svg+xml',
          'cache-control': `public, max-age=${BADGE_TTL_MS / 1000}`,
          'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; sandbox",
          'cross-origin-resource-policy': 'cross-origin',
          'x-content-type-options': 'nosniff',
          'x-robots-tag': 'noindex, nofollow',
        },
      })
    },
    { detail: { hide: true } },
  )
}

const drawBadge = (value: string, colour: string): string =>
  `<svg xmlns="http://www.w3.org/2000/svg" width="190" height="20" role="img" aria-label="Sender rules: ${value}">
<title>Sender rules: ${value}</title><rect width="190" height="20" rx="3" fill="#444"/>
<path d="M86 0h101a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3H86z" fill="${colour}"/>
<g fill="#fff" text-anchor="middle" font-family="Verdana,sans-serif" font-size="11"><text x="43" y="14">Sender rules</text><text x="138" y="14">${value}</text></g></svg>
`
