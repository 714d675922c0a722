/** @module Replies that blame our addresses or set-up, and what to do; nothing while there are none. */
import { Stack, Text } from '@mantine/core'
import type { OperatorAlert } from '#client/operator-api.ts'
import { read } from '../../api/client.ts'
import { usePage } from '../../api/data.ts'
import { formatCount } from '../../parts/format.ts'
import { Notice } from '../../parts/status.tsx'
import { Time } from '../../parts/time.tsx'
import { REFRESHED } from './frame.tsx'

const MAX_SHOWN = 5

export function DeliveryAlerts() {
  const { data: alerts = [], pagination } =
    usePage(read.operator.listAlerts(), { refetchInterval: REFRESHED.refetchInterval }).data ?? {}
  const more = (pagination?.total ?? 0) - MAX_SHOWN
  if (alerts.length === 0) return null
  return (
    <Stack gap="xs" component="section" aria-label="Delivery alerts">
      {alerts.slice(0, MAX_SHOWN).map((alert) => (
        <OneAlert key={`${alert.rule} ${alert.provider} ${alert.source}`} alert={alert} />
      ))}
      {more > 0 && <Text>And {formatCount(more, 'more alert')} (tassis providers).</Text>}
    </Stack>
  )
}

const OneAlert = ({ alert }: { readonly alert: OperatorAlert }) => (
  <Notice tone="warning" title={`Mail to ${alert.provider} is rejected because of our address or set-up`}>
    {alert.advice}
    <Text lineClamp={3}>
      <bdi>{alert.reply}</bdi>
    </Text>
    <Text size="xs">
      {formatCount(alert.count, 'attempt')}
      {alert.source !== null && ` from ${alert.source}`} since <Time iso={alert.first_at} />, the last{' '}
      <Time iso={alert.last_at} />, by the rule {alert.rule}
    </Text>
  </Notice>
)
