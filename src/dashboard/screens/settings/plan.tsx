/** @module The plan: what it allows, what is used of it, and where it is bought and changed. */
import { Progress, Stack, Text } from '@mantine/core'
import { useSearch } from '@tanstack/react-router'
import type { Account, BillingPlan, BillingSubscription } from '#client/api.ts'
import { api, type Read, read } from '../../api/client.ts'
import { type PageOf, useData, usePage } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'
import { RunButton } from '../../parts/buttons.tsx'
import { Facts, QueryView, Section } from '../../parts/page.tsx'
import { Notice, StateLabel } from '../../parts/status.tsx'
import { type Column, column, DataTable } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import type { State } from '../../parts/tone.ts'
import { formatLimit, formatUsage, isLimited, openProviderPage, SettingsPage, useAccount } from './frame.tsx'

export default function PlanScreen() {
  const account = useAccount()
  const subscription = useData(read.billing.getSubscription())
  const plans = useData(read.billing.listPlans())
  const { purchase } = useSearch({ from: '/settings/plan' })
  return (
    <SettingsPage title="Plan">
      {purchase === 'done' && (
        <Notice tone="good" title="Thank you">
          The plan changes as soon as the payment provider confirms the purchase, usually within a minute.
        </Notice>
      )}
      {purchase === 'cancelled' && <Notice>Nothing was bought.</Notice>}
      <QueryView query={account}>{(data) => <Usage account={data} />}</QueryView>
      <QueryView query={subscription}>
        {(data) => (
          <QueryView query={plans}>
            {(all) => (
              <>
                <Subscription subscription={data} plans={all} />
                <Plans subscription={data} plans={all} />
              </>
            )}
          </QueryView>
        )}
      </QueryView>
    </SettingsPage>
  )
}

const HIGH_PERCENT = 80

function Usage({ account }: { readonly account: Account }) {
  const { monthly_quota: quota, emails_sent_this_month: sent, quota_reset_at: resetAt } = account
  const percent = quota === 0 ? 100 : Math.min(100, (sent / quota) * 100)
  return (
    <Section title="Recipients this month">
      <Text>
        {formatUsage(sent, quota)}
        {isLimited(quota) && ` (${Math.floor(percent)} %)`}
      </Text>
      {isLimited(quota) && (
        <Progress value={percent} color={percent >= HIGH_PERCENT ? 'orange' : 'blue'} aria-label="Used of the quota" />
      )}
      <Text size="sm">
        Counted again from <Time iso={resetAt} />, without captured mail.
        {isLimited(quota) && ' Beyond the quota new mail is rejected until then.'}
      </Text>
    </Section>
  )
}

const STATUSES: Readonly<Record<string, State>> = {
  active: { word: 'Active', tone: 'good' },
  trialing: { word: 'Trial', tone: 'active' },
  past_due: { word: 'Payment overdue', tone: 'bad' },
  canceled: { word: 'Ended', tone: 'neutral' },
}

interface PlanProps {
  readonly subscription: BillingSubscription
  readonly plans: readonly BillingPlan[]
}

function Subscription({ subscription, plans }: PlanProps) {
  const { plan, subscription_status: status, billing_email, trial_ends_at, monthly_quota } = subscription
  const current = plans.find((known) => known.plan === plan)
  const state = STATUSES[status]
  const isHeld = current !== undefined && monthly_quota < current.monthly_quota
  return (
    <Section title={`Your plan: ${plan}`}>
      <Facts
        facts={[
          ['Subscription', state && <StateLabel state={state} />],
          ['Invoices go to', billing_email],
          ['Trial ends', trial_ends_at && <Time key="trial" iso={trial_ends_at} />],
          ['Recipients a month', isLimited(monthly_quota) && formatLimit(monthly_quota)],
          ['Domains', current && <Used key="domains" all={read.domains.list(ONE)} limit={current.max_domains} />],
          [
            'Templates',
            current && <Used key="templates" all={read.templates.list(ONE)} limit={current.max_templates} />,
          ],
          ['Webhooks', current && <Used key="webhooks" all={read.webhooks.list(ONE)} limit={current.max_webhooks} />],
          [
            'Contact lists',
            current && <Used key="lists" all={read.contactLists.list(ONE)} limit={current.max_contact_lists} />,
          ],
          ['Sub-accounts', current && <SubAccountsUsed limit={current.max_sub_accounts} />],
          ['Tracking', current && (current.tracking_enabled ? 'Opens and clicks' : 'Not included')],
        ]}
      />
      {isHeld && (
        <Text size="sm" maw={640}>
          The quota is below that of the plan ({formatLimit(current.monthly_quota)}): until the first invoice is paid,
          or because the operator of this server has set it.
        </Text>
      )}
      {status !== 'none' && <Portal />}
    </Section>
  )
}

/** To count, one row is enough. */
const ONE = { per_page: 1 }

/** How many of a kind the account has, of those that the plan allows; only the limit while that is not known. */
function Used({ all, limit }: { readonly all: Read<PromiseLike<PageOf<unknown>>>; readonly limit: number }) {
  const { data } = usePage(all)
  const max = formatLimit(limit)
  return <>{data ? formatUsage(data.pagination.total, limit) : max}</>
}

/** Only those who manage sub-accounts may count them. */
const SubAccountsUsed = ({ limit }: { readonly limit: number }) =>
  useAllowed('admin') === undefined ? <Used all={read.subAccounts.list(ONE)} limit={limit} /> : formatLimit(limit)

/** Leads to the pages of the payment provider, where invoices and cards are. */
const Portal = () => (
  <Stack gap="xs" align="flex-start">
    <RunButton
      label="Invoices, card, change or cancel"
      needs="owner"
      variant="default"
      run={async () => {
        const { data } = await api.billing.createPortal({ return_url: `${location.origin}/app/settings/plan` })
        openProviderPage(data.portal_url)
      }}
    />
    <Text size="sm">This opens a page of the payment provider.</Text>
  </Stack>
)

function Plans({ subscription, plans }: PlanProps) {
  if (plans.every(({ stripe_price_id: price }) => price === null))
    return <Text c="dimmed">This server sells no plans. Its operator sets the plan of an account.</Text>
  const columns: readonly Column<BillingPlan>[] = [
    column('Plan', {}, ({ plan }) => (
      <Text size="sm" fw={plan === subscription.plan ? 700 : 400}>
        {plan}
        {plan === subscription.plan && ' (yours)'}
      </Text>
    )),
    column('Recipients a month', { isNumeric: true }, ({ monthly_quota: quota }) => formatLimit(quota)),
    column('Domains', { isNumeric: true, phone: 'none' }, ({ max_domains: max }) => formatLimit(max)),
    column('Sub-accounts', { isNumeric: true, phone: 'none' }, ({ max_sub_accounts: max }) => formatLimit(max)),
    column('Tracking', { phone: 'none' }, ({ tracking_enabled: isOn }) => (isOn ? 'Yes' : 'No')),
    column('Price a month', { isNumeric: true }, formatPrice),
    column('Actions', { phone: 'bare' }, (plan) => <Buy plan={plan} subscription={subscription} />),
  ]
  return (
    <Section title="All plans">
      <DataTable label="Plans, the smallest first" columns={columns} rows={plans} toKey={({ plan }) => plan} />
    </Section>
  )
}

/** The payment provider shows the currency. */
const formatPrice = ({ price_cents: cents }: BillingPlan): string =>
  cents === 0 ? '–' : (cents / 100).toLocaleString(undefined, { minimumFractionDigits: 2 })

function Buy({ plan, subscription }: { readonly plan: BillingPlan; readonly subscription: BillingSubscription }) {
  const page = `${location.origin}/app/settings/plan`
  const body = { plan: plan.plan, success_url: `${page}?purchase=done`, cancel_url: `${page}?purchase=cancelled` }
  if (plan.stripe_price_id === null) return <Text size="sm">Not for sale</Text>
  if (subscription.stripe_subscription_id !== null)
    return <Text size="sm">{plan.plan === subscription.plan ? 'Bought' : 'Change it by the button above'}</Text>
  return (
    <RunButton
      label="Buy"
      aria-label={`Buy the plan ${plan.plan}`}
      size="compact-sm"
      needs="owner"
      run={async () => openProviderPage((await api.billing.createCheckout(body)).data.checkout_url)}
    />
  )
}
