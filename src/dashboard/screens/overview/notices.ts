/** @module What needs attention, the most urgent first, and the steps of the checklist, from what `/v1` returned. */
import type { Account, DeadLetter, Domain, Webhook } from '#client/api.ts'
import type { Target } from '../../parts/filters.ts'
import { UNLIMITED } from '../../parts/format.ts'
import { toWebhookName } from '../webhooks/state.ts'

export interface Notice {
  readonly key: string
  readonly level: 'problem' | 'warning'
  readonly title: string
  readonly text: string
  /** RFC 3339 time that belongs to the text: until when, since when. */
  readonly at?: { readonly label: string; readonly iso: string }
  readonly action: { readonly label: string; readonly target: Target }
}

interface NoticeFacts {
  readonly capturesMail: boolean
  readonly account: Account | undefined
  readonly domains: readonly Domain[] | undefined
  readonly webhooks: readonly Webhook[] | undefined
  readonly deadLetters: { readonly data: readonly DeadLetter[]; readonly total: number } | undefined
  readonly drafts?: number | undefined
}

const QUOTA_WARNING_FRACTION = 0.8

export function listNotices({ capturesMail, account, domains, webhooks, deadLetters, drafts }: NoticeFacts): Notice[] {
  return [
    ...(capturesMail ? [CAPTURE_NOTICE] : []),
    ...(account?.paused ? [toPauseNotice(account.paused)] : []),
    ...(drafts ? [toDraftsNotice(drafts)] : []),
    ...(domains ?? []).flatMap(listDomainNotices),
    ...(webhooks ?? []).flatMap(listWebhookNotices),
    ...(deadLetters ? listDeadLetterNotices(deadLetters) : []),
    ...(account ? listQuotaNotices(account) : []),
  ]
}

const CAPTURE_NOTICE: Notice = {
  key: 'capture',
  level: 'warning',
  title: 'This server delivers no mail',
  text: 'All mail is captured instead: its delivery mode is capture.',
  action: { label: 'See captured mail', target: { to: '/sandbox' } },
}

const toPauseNotice = ({ reason, since }: NonNullable<Account['paused']>): Notice => ({
  key: 'paused',
  level: 'problem',
  title: 'Sending is paused',
  text: `${reason} Queued mail is kept; the operator of this server can resume.`,
  at: { label: 'Since', iso: since },
  action: { label: 'See bounced emails', target: { to: '/emails', search: { status: 'bounced' } } },
})

const toDraftsNotice = (count: number): Notice => ({
  key: 'drafts',
  level: 'warning',
  title: count === 1 ? '1 email waits for your release' : `${count} emails wait for your release`,
  text: 'Programs wrote them. Drafts that nobody releases are cancelled after 14 days.',
  action: { label: 'See drafts', target: { to: '/emails', search: { status: 'draft' } } },
})

const RECORD_NAMES: Readonly<Record<string, string>> = { spf: 'SPF', dkim: 'DKIM', return_path: 'return path' }

function listDomainNotices(domain: Domain): Notice[] {
  const { lost_records: lost = [], sends_until: until } = domain
  // A domain above it may sign its mail.
  if (lost.length === 0 || domain.covered_by !== undefined) return []
  const names = lost.map((name) => RECORD_NAMES[name] ?? name).join(', ')
  const hasStopped = domain.status === 'pending'
  return [
    {
      key: `domain-${domain.id}`,
      level: 'problem',
      title: hasStopped ? `${domain.domain} does not send` : `${domain.domain} is about to stop sending`,
      text: `Missing in DNS: ${names}.${hasStopped ? ' Its mail is rejected.' : ''}`,
      ...(until && { at: { label: hasStopped ? 'Stopped' : 'Sends until', iso: until } }),
      action: { label: 'See the records', target: { to: '/domains/$id', params: { id: domain.id } } },
    },
  ]
}

/** Webhooks that their owner switched off have no failure to report. */
function listWebhookNotices({
  id,
  url,
  description,
  is_active,
  failure_count,
  last_failure_at: at,
  last_failure_reason: reason,
}: Webhook): Notice[] {
  if (is_active || failure_count === 0) return []
  return [
    {
      key: `webhook-${id}`,
      level: 'problem',
      title: 'A webhook was deactivated',
      text: `${toWebhookName({ description, url })} gets no events${reason ? `: ${reason.replace(/\.$/, '')}` : ''}.`,
      ...(at && { at: { label: 'Last failure', iso: at } }),
      action: { label: 'See why', target: { to: '/webhooks/$id', params: { id } } },
    },
  ]
}

function listDeadLetterNotices({ data, total }: NonNullable<NoticeFacts['deadLetters']>): Notice[] {
  const of = (status: string) => data.filter(({ original_status }) => original_status === status)
  const uncertain = of('uncertain').length
  const failed = of('failed')
  const notice = (key: string, count: number, status: string, title: string, text: string): Notice[] => {
    // A page may have fewer than there are.
    const recipients = `${total > data.length ? 'At least ' : ''}${count} recipient${count === 1 ? '' : 's'}`
    const action = { label: `See ${status} emails`, target: { to: '/emails', search: { status } } as const }
    return count === 0 ? [] : [{ key, level: 'warning', title, text: `${recipients}${text}`.trim(), action }]
  }
  return [
    ...notice(
      'uncertain',
      uncertain,
      'uncertain',
      'Some mail may or may not have arrived',
      ': the connection broke before the last reply. Sending again may deliver it twice.',
    ),
    ...notice('failed', failed.length, 'failed', 'Some mail could not be sent', `. ${failed[0]?.last_error ?? ''}`),
    ...notice(
      'dead-letters',
      data.length - uncertain - failed.length,
      'bounced',
      'Some mail was not accepted',
      ': refused, or not reached in time.',
    ),
  ]
}

function listQuotaNotices({ monthly_quota: quota, emails_sent_this_month: used, quota_reset_at }: Account): Notice[] {
  if (quota >= UNLIMITED || used < quota * QUOTA_WARNING_FRACTION) return []
  const percent = quota === 0 ? 100 : Math.floor((used / quota) * 100)
  return [
    {
      key: 'quota',
      level: used >= quota ? 'problem' : 'warning',
      title: used >= quota ? 'The quota of this month is used up' : `${percent} % of this month's quota is used`,
      text: `${used.toLocaleString()} of ${quota.toLocaleString()} recipients.${used >= quota ? ' New mail is rejected.' : ''}`,
      at: { label: 'Starts again at', iso: quota_reset_at },
      action: { label: "See this month's emails", target: { to: '/emails' } },
    },
  ]
}

export type StepName = 'domain' | 'key' | 'email' | 'webhook' | 'authenticator'

/** What is known; undefined: the role may not see it. */
export interface SetupFacts {
  readonly domains: readonly { readonly status: string }[] | undefined
  readonly keys: readonly unknown[] | undefined
  readonly sent: readonly { readonly sandbox: boolean }[] | undefined
  readonly webhooks: readonly { readonly last_success_at: string | null }[] | undefined
  readonly hasReadEvents: boolean
  readonly hasAuthenticator: boolean
}

export interface Step {
  readonly name: StepName
  readonly isDone: boolean
}

/** Mail of a domain that was never verified is captured, not delivered. */
export const hasDelivered = (sent: readonly { readonly sandbox: boolean }[]): boolean =>
  sent.some(({ sandbox }) => !sandbox)

/** The steps that the role can see, in the order in which they are taken. */
export function listSteps({ domains, keys, sent, webhooks, hasReadEvents, hasAuthenticator }: SetupFacts): Step[] {
  const steps: readonly (readonly [StepName, boolean | undefined])[] = [
    ['domain', domains?.some(({ status }) => status === 'verified')],
    ['key', keys && keys.length > 0],
    ['email', sent && hasDelivered(sent)],
    ['webhook', webhooks && (hasReadEvents || webhooks.some(({ last_success_at }) => last_success_at !== null))],
    ['authenticator', hasAuthenticator],
  ]
  return steps.flatMap(([name, isDone]) => (isDone === undefined ? [] : [{ name, isDone }]))
}

/** Whether so much is set up that the rest can wait. */
export const isMostlyDone = (steps: readonly Step[]): boolean =>
  steps.filter(({ isDone }) => isDone).length * 2 > steps.length
