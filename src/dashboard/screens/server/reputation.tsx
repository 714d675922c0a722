/** @module How providers treat mail from our addresses in 30 days: rates as lines, with the replies behind them. */
import { Stack, Text } from '@mantine/core'
import type { OperatorReputation } from '#client/operator-api.ts'
import { read } from '../../api/client.ts'
import { Figures } from '../../parts/figures.tsx'
import { Notice } from '../../parts/notice.tsx'
import { Section } from '../../parts/page.tsx'
import { useOne } from './queries.ts'

const PERCENT = new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 1 })
const RATES = [
  { label: 'Blocked', kind: 'blocked', rate: 'block_rate' },
  { label: 'Bounced', kind: 'refused', rate: 'bounce_rate' },
  { label: 'Deferred', kind: 'deferred', rate: 'deferral_rate' },
  { label: 'Complaints', kind: 'complaints', rate: 'complaint_rate' },
] as const
/** The busiest, while no provider is chosen. */
const MAX_PAIRS = 3

export function Reputation({ provider }: { readonly provider: string | undefined }) {
  const { data } = useOne(read.operator.getReputation({ days: 30 }))
  if (!data || data.pairs.length === 0) return null
  const shown =
    provider === undefined ? data.pairs.slice(0, MAX_PAIRS) : data.pairs.filter((pair) => pair.provider === provider)
  return (
    <Stack gap="xs" component="section" aria-label="Reputation of our addresses">
      {data.alerts.map(({ message, advice }) => (
        <Notice key={message} tone="warning" title={message}>
          {advice}
        </Notice>
      ))}
      {data.listings.map((message) => (
        <Notice key={message} tone="bad" title={message} />
      ))}
      {shown.map((pair) => (
        <PairReputation key={`${pair.provider} ${pair.source}`} pair={pair} data={data} />
      ))}
    </Stack>
  )
}

interface PairProps {
  readonly pair: OperatorReputation['pairs'][number]
  readonly data: OperatorReputation
}

function PairReputation({ pair, data }: PairProps) {
  const isOurs = (row: { readonly provider: string; readonly source: string | null }) =>
    row.provider === pair.provider && row.source === pair.source
  const days = data.days.filter(isOurs).toReversed()
  const figures = RATES.map(({ label, kind, rate }) => {
    const reply = data.replies.find((row) => isOurs(row) && row.kind === kind && row.reply !== '')
    const note = reply && (
      <Text inherit lineClamp={2} title={reply.reply}>
        <bdi>{reply.reply}</bdi>
      </Text>
    )
    // Thousandths, because a line begins at one.
    return { label, value: PERCENT.format(pair[rate]), series: days.map((day) => 1000 * day[rate]), note }
  })
  const title = `${pair.provider === 'other' ? 'Other providers' : pair.provider}${pair.source === null ? '' : ` from ${pair.source}`}`
  return (
    <Section
      title={title}
      description={`${pair.accepted.toLocaleString()} messages accepted in 30 days.`}
      isCard
      order={3}
    >
      <Figures figures={figures} />
    </Section>
  )
}
