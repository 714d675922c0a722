/** @module Buttons, which say why they are not possible now. */
import { Button, type ButtonProps, Tooltip } from '@mantine/core'
import { type Role, useAllowed } from '../api/session.tsx'

export interface ActionProps extends ButtonProps {
  /** The role that may do it; default: every one. */
  readonly needs?: Role
  /** Why it is not possible, besides the role. */
  readonly reason?: string | undefined
  onClick(): void
}

/** The disabled button can still have the focus, so that its reason can be read by keyboard and screen reader. */
export function ActionButton({ needs = 'viewer', reason, onClick, children, ...props }: ActionProps) {
  const obstacle = useAllowed(needs) ?? reason
  return obstacle === undefined ? (
    <Button {...props} onClick={onClick}>
      {children}
    </Button>
  ) : (
    <Tooltip label={obstacle} position="bottom" events={{ hover: true, focus: true, touch: true }} multiline maw={300}>
      <Button {...props} data-disabled aria-disabled="true" aria-description={obstacle}>
        {children}
      </Button>
    </Tooltip>
  )
}

/** Beside others: what can be done with the thing that a screen shows. */
export const SmallAction = (props: ActionProps) => <ActionButton size="xs" variant="default" {...props} />

interface SubmitProps extends ButtonProps {
  readonly reason: string | undefined
}

/** The button that sends a form, unless it is not possible now. */
export const SubmitButton = ({ reason, children, ...props }: SubmitProps) =>
  reason === undefined ? (
    <Button type="submit" {...props}>
      {children}
    </Button>
  ) : (
    <ActionButton reason={reason} onClick={() => undefined}>
      {children}
    </ActionButton>
  )
