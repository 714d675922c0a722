/** @module Sends again what happened in a range of time; counts it first. */
import { Text } from '@mantine/core'
import type { ReactNode } from 'react'
import type { Read } from '../api/client.ts'
import { type Stale, useData } from '../api/data.ts'
import { type Field, toBody } from './fields.ts'
import { ConfirmDialog, FormError } from './form.tsx'
import { formatCount } from './format.ts'

/** Counting reads many events. */
const STALE_MS = 30_000

export interface ReplayRange {
  readonly from: string
  readonly to?: string
  /** Whether only what was not accepted is sent again. */
  readonly undelivered: boolean
  /** The only kind of event; undefined: all. */
  readonly event?: string
}

interface Replayed {
  readonly deliveries: number
}

interface ReplayDialogProps {
  readonly title: string
  /** What is sent again. */
  readonly noun: 'event' | 'message'
  readonly undelivered: Pick<Field, 'label' | 'hint'>
  readonly event?: Pick<Field, 'label' | 'options'>
  /** When the range begins, if nobody says otherwise. */
  readonly from?: string
  readonly refreshes: readonly Stale[]
  readonly children: ReactNode
  count(range: ReplayRange): Read<PromiseLike<{ readonly data: Replayed }>>
  run(range: ReplayRange): PromiseLike<{ readonly data: Replayed }>
  onClose(): void
}

export function ReplayDialog({ noun, undelivered, event, from, count, children, ...dialog }: ReplayDialogProps) {
  return (
    <ConfirmDialog
      {...dialog}
      confirm="Send again"
      fields={[
        { name: 'from', label: 'From', kind: 'time', hint: 'In the time zone of this browser.', isRequired: true },
        { name: 'to', label: 'To', kind: 'time', hint: 'Empty: until now.' },
        ...(event ? [{ name: 'event', kind: 'choice', ...event } as const] : []),
        { name: 'undelivered', kind: 'check', ...undelivered },
      ]}
      initial={{ from, undelivered: true }}
      done={({ data }) => toWords(data, noun)}
      footer={({ fields, values }) => (
        <Count range={toBody(fields, values, false) as unknown as ReplayRange} noun={noun} count={count} />
      )}
    >
      {children}
    </ConfirmDialog>
  )
}

const toWords = ({ deliveries }: Replayed, noun: string): string =>
  deliveries === 0 ? `There is no such ${noun} in this time.` : `${formatCount(deliveries, noun)} will be sent again.`

interface CountProps extends Pick<ReplayDialogProps, 'noun' | 'count'> {
  readonly range: ReplayRange
}

function Count({ range, noun, count }: CountProps) {
  const isComplete = range.from !== ''
  const { data, error, isFetching } = useData(count(range), { enabled: isComplete, staleTime: STALE_MS, retry: false })
  if (error) return <FormError error={error} />
  return <Text role="status">{isFetching ? 'Counting…' : data && toWords(data, noun)}</Text>
}
