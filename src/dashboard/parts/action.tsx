/** @module A button for an action that may not be possible now: it is then disabled and says why. */
import { Button, type ButtonProps, Tooltip } from '@mantine/core'

interface ActionProps extends ButtonProps {
  /** Why the action is not possible; undefined when it is. */
  readonly reason: string | undefined
  onClick(): void
}

/** The disabled button can still have the focus, so that its reason can be read by keyboard and screen reader. */
export const ActionButton = ({ reason, onClick, children, ...props }: ActionProps) =>
  reason === undefined ? (
    <Button {...props} onClick={onClick}>
      {children}
    </Button>
  ) : (
    <Tooltip label={reason} position="bottom" events={{ hover: true, focus: true, touch: true }} multiline maw={300}>
      <Button {...props} data-disabled aria-disabled="true" aria-description={reason}>
        {children}
      </Button>
    </Tooltip>
  )

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
