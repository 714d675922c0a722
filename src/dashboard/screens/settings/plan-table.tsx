/** @module The plans beside each other, each with the way to buy it. */
import { Stack, Text } from '@mantine/core'
import type { BillingPlan, BillingSubscription } from '#client/api.ts'
import { api } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'
import { ActionButton, FormError } from '../../parts/form.tsx'
import { type Column, DataTable } from '../../parts/table.tsx'
import { formatLimit, openProviderPage } from './queries.ts'

interface PlanTableProps {
  readonly subscription: BillingSubscription
  readonly plans: readonly BillingPlan[]
  /** Whether any plan can be bought here. */
  readonly isSold: boolean
}

export function PlanTable({ subscription, plans, isSold }: PlanTableProps) {
  const columns: readonly Column<BillingPlan>[] = [
    {
      header: 'Plan',
      cell: ({ plan }) => (
        <Text size="sm" fw={plan === subscription.plan ? 700 : 400}>
          {plan}
          {plan === subscription.plan && ' (yours)'}
        </Text>
      ),
    },
    { header: 'Recipients a month', cell: ({ monthly_quota: quota }) => formatLimit(quota) },
    { header: 'Domains', cell: ({ max_domains: max }) => formatLimit(max) },
    { header: 'Sub-accounts', cell: ({ max_sub_accounts: max }) => formatLimit(max) },
    { header: 'Tracking', cell: ({ tracking_enabled: isOn }) => (isOn ? 'Yes' : 'No') },
    ...(isSold
      ? [
          { header: 'Price a month', cell: formatPrice },
          {
            header: 'Actions',
            cell: (plan: BillingPlan) => <Buy plan={plan} subscription={subscription} />,
          },
        ]
      : []),
  ]
  return <DataTable label="Plans, the smallest first" columns={columns} rows={plans} toKey={({ plan }) => plan} />
}

/** The payment provider shows the currency. */
const formatPrice = ({ price_cents: cents }: BillingPlan): string =>
  cents === 0 ? '–' : (cents / 100).toLocaleString(undefined, { minimumFractionDigits: 2 })

function Buy({ plan, subscription }: { readonly plan: BillingPlan; readonly subscription: BillingSubscription }) {
  const roleReason = useAllowed('owner')
  const buy = useChange(async () => {
    const page = `${location.origin}/app/settings/plan`
    const body = { plan: plan.plan, success_url: `${page}?purchase=done`, cancel_url: `${page}?purchase=cancelled` }
    const { data } = await api.billing.createCheckout(body)
    openProviderPage(data.checkout_url)
  })
  if (plan.stripe_price_id === null) return <Text size="sm">Not for sale</Text>
  if (subscription.stripe_subscription_id !== null)
    return <Text size="sm">{plan.plan === subscription.plan ? 'Bought' : 'Change it by the button above'}</Text>
  return (
    <Stack gap="xs" align="flex-start">
      <ActionButton
        size="compact-sm"
        reason={roleReason}
        loading={buy.isPending}
        onClick={() => buy.mutate(undefined)}
        aria-label={`Buy the plan ${plan.plan}`}
      >
        Buy
      </ActionButton>
      <FormError error={buy.error} />
    </Stack>
  )
}
