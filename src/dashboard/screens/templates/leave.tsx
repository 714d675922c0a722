/** @module Warns before unsaved text is left. */
import { Text } from '@mantine/core'
import { useBlocker } from '@tanstack/react-router'
import { DialogFrame } from '../../parts/dialog.tsx'

/** @param isDirty asked at the moment of leaving */
export function LeaveGuard({ isDirty }: { readonly isDirty: () => boolean }) {
  const blocker = useBlocker({
    shouldBlockFn: ({ current, next }) => current.pathname !== next.pathname && isDirty(),
    enableBeforeUnload: isDirty,
    withResolver: true,
  })
  if (blocker.status !== 'blocked') return null
  return (
    <DialogFrame
      title="Leave without saving?"
      confirm="Leave"
      isDangerous
      isBusy={false}
      error={undefined}
      onConfirm={blocker.proceed}
      onClose={blocker.reset}
    >
      <Text>What you changed in this template is not saved. It is lost when you leave.</Text>
    </DialogFrame>
  )
}
