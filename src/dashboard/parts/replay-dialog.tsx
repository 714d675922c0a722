/** @module Sends again what happened in a range of time; counts it first. */
import { Text } from '@mantine/core'
import { useDebouncedValue } from '@mantine/hooks'
import { type ReactNode, useEffect, useState } from 'react'
import type { CountInboundRouteReplayRequest, CountWebhookReplayResult } from '#client/api.ts'
import type { Read } from '../api/client.ts'
import { type Stale, useData } from '../api/data.ts'
import { ConfirmDialog } from './dialog.tsx'
import type { Field } from './fields.ts'
import { FormError } from './form.tsx'
import { formatCount } from './format.ts'

/** Counting reads many events. */
const STALE_MS = 30_000
/** A time that is being typed is not counted: a year passes the first ones. */
const TYPING_MS = 400

/** By times as they are typed; by positions it is exactly what was counted. */
export interface ReplayRange extends CountInboundRouteReplayRequest {
  /** The only kind of event; undefined: all. */
  readonly event?: string
}

type Replayed = CountWebhookReplayResult

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

export function ReplayDialog({ noun, undelivered, event, from, count, run, children, ...dialog }: ReplayDialogProps) {
  const [found, setFound] = useState<Replayed>()
  const { from_seq, to_seq } = found ?? {}
  return (
    <ConfirmDialog
      {...dialog}
      confirm="Send again"
      isIncomplete={!found?.deliveries}
      run={(range: ReplayRange) => run({ ...range, ...(from_seq != null && to_seq != null && { from_seq, to_seq }) })}
      fields={[
        { name: 'from', label: 'From', kind: 'time', hint: 'In the time zone of the account menu.', isRequired: true },
        { name: 'to', label: 'To', kind: 'time', hint: 'Empty: until now.', isEnd: true },
        ...(event ? [{ name: 'event', kind: 'choice', ...event } as const] : []),
        { name: 'undelivered', kind: 'check', ...undelivered },
      ]}
      initial={{ from, undelivered: true }}
      done={({ data }) => toWords(data, noun)}
      footer={({ toBody }) => <Count range={toBody()} noun={noun} count={count} onFound={setFound} />}
    >
      {children}
    </ConfirmDialog>
  )
}

const toWords = ({ deliveries }: Replayed, noun: string): string =>
  deliveries === 0 ? `There is no such ${noun} in this time.` : `${formatCount(deliveries, noun)} will be sent again.`

interface CountProps extends Pick<ReplayDialogProps, 'noun' | 'count'> {
  readonly range: ReplayRange
  /** Called with undefined while it is not known. */
  onFound(found: Replayed | undefined): void
}

function Count({ range, noun, count, onFound }: CountProps) {
  const [counted] = useDebouncedValue(range, TYPING_MS)
  const isComplete = counted.from !== ''
  const query = useData(count(counted), { enabled: isComplete, staleTime: STALE_MS, retry: false })
  const isCounting = query.isFetching || JSON.stringify(counted) !== JSON.stringify(range)
  const found = isCounting || query.error ? undefined : query.data
  useEffect(() => onFound(found), [found, onFound])
  if (query.error && !isCounting) return <FormError error={query.error} />
  return <Text role="status">{isCounting ? 'Counting…' : found && toWords(found, noun)}</Text>
}
