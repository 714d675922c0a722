/** @module Holds, releases, retries, bounces and drops mail in the queue; each dialog says first how much matches. */
import { Button, Group, Text, Textarea } from '@mantine/core'
import { useState } from 'react'
import { read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { DialogFrame, useFields } from '../../parts/form.tsx'
import { formatCount } from '../../parts/format.ts'
import { type QueueAction, type QueueSelector, useQueueAction } from './queries.ts'
import { ACTIONS, describeResult, describeSelector } from './queue-format.ts'

const MAX_REASON_LENGTH = 300
const ALL_ACTIONS: readonly QueueAction[] = ['hold', 'release', 'retry', 'bounce', 'drop']

interface QueueActionsProps {
  readonly selector: QueueSelector
  onDone(message: string): void
}

export function QueueActions({ selector, onDone }: QueueActionsProps) {
  const [action, setAction] = useState<QueueAction>()
  return (
    <Group gap="xs" role="group" aria-label={`What to do with ${describeSelector(selector)}`}>
      {ALL_ACTIONS.map((name) => (
        <Button key={name} variant="default" size="compact-sm" onClick={() => setAction(name)}>
          {ACTIONS[name].button}
        </Button>
      ))}
      {action !== undefined && (
        <QueueDialog
          action={action}
          selector={selector}
          onClose={(message) => {
            setAction(undefined)
            if (message !== undefined) onDone(message)
          }}
        />
      )}
    </Group>
  )
}

interface QueueDialogProps {
  readonly action: QueueAction
  readonly selector: QueueSelector
  onClose(message?: string): void
}

export function QueueDialog({ action, selector, onClose }: QueueDialogProps) {
  const { title, button, effect, isDangerous = false } = ACTIONS[action]
  const selection = useData(read.operator.getQueueSelection(selector), { gcTime: 0 })
  const run = useQueueAction(action, selector)
  const { values, field, fields } = useFields({ reason: '' }, run.error)
  const hasReason = action === 'hold' || action === 'bounce'
  const isReasonMissing = action === 'bounce' && values.reason.trim() === ''
  return (
    <DialogFrame
      title={title}
      confirm={button}
      isDangerous={isDangerous}
      work={{ isPending: run.isPending, error: run.error ?? selection.error }}
      fields={fields}
      isIncomplete={selection.data === undefined || isReasonMissing}
      {...(isDangerous && { typed: selector.domain ?? action })}
      onConfirm={() => run.mutate(values.reason, { onSuccess: (result) => onClose(describeResult(action, result)) })}
      onClose={() => onClose()}
    >
      <Text style={{ overflowWrap: 'anywhere' }}>
        This is <bdi>{describeSelector(selector)}</bdi>. {effect}
      </Text>
      <Text role="status" fw={600}>
        {selection.data === undefined
          ? 'What matches is being counted.'
          : `${formatCount(selection.data.waiting, 'recipient')} match; ${selection.data.in_delivery.toLocaleString()} more in delivery are left alone.`}
      </Text>
      {hasReason && (
        <Textarea
          {...field('reason')}
          label="Reason"
          description={action === 'bounce' ? 'One sentence; the senders read it.' : 'One sentence; operators read it.'}
          maxLength={MAX_REASON_LENGTH}
          autosize
          minRows={2}
          required={action === 'bounce'}
          data-autofocus
        />
      )}
    </DialogFrame>
  )
}
