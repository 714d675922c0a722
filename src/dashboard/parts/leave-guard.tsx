/** @module Warns before unsaved text is left. */
import { Text } from '@mantine/core'
import { useBlocker } from '@tanstack/react-router'
import { DialogFrame } from './dialog.tsx'

interface LeaveGuardProps {
  /** What is lost, as a sentence. */
  readonly text: string
  /** Asked at the moment of leaving. */
  isDirty(): boolean
  /** Whether a change of the query alone leaves the text too. */
  readonly isQueryGuarded?: boolean
}

export function LeaveGuard({ text, isDirty, isQueryGuarded = false }: LeaveGuardProps) {
  const blocker = useBlocker({
    shouldBlockFn: ({ current, next }) => (isQueryGuarded || current.pathname !== next.pathname) && isDirty(),
    enableBeforeUnload: isDirty,
    withResolver: true,
  })
  if (blocker.status !== 'blocked') return null
  return (
    <DialogFrame
      title="Leave without saving?"
      confirm="Leave"
      isDangerous
      onConfirm={blocker.proceed}
      onClose={blocker.reset}
    >
      <Text>{text}</Text>
    </DialogFrame>
  )
}
