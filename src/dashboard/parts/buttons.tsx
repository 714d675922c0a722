/** @module Buttons, which say why they are not possible now. */
import { Button, type ButtonProps } from '@mantine/core'
import { type ReactNode, useRef, useState } from 'react'
import { type Role, useAllowed } from '../api/session.tsx'
import { place } from './popover.tsx'

export interface ActionProps extends ButtonProps {
  /** What it says; default: its children. */
  readonly label?: ReactNode
  /** The role that may do it; default: every one. */
  readonly needs?: Role
  /** Why it is not possible, besides the role. */
  readonly reason?: string | undefined
  onClick(): void
}

/** The disabled button can still have the focus, so that its reason can be read by keyboard and screen reader. */
export function ActionButton({ needs = 'viewer', reason, onClick, label, children = label, ...props }: ActionProps) {
  const obstacle = useAllowed(needs) ?? reason
  return obstacle === undefined ? (
    <Button {...props} onClick={onClick}>
      {children}
    </Button>
  ) : (
    <DisabledButton {...props} obstacle={obstacle}>
      {children}
    </DisabledButton>
  )
}

function DisabledButton({ obstacle, ...props }: ButtonProps & { readonly obstacle: string }) {
  const [isShown, setIsShown] = useState(false)
  const button = useRef<HTMLButtonElement>(null)
  const show = () => setIsShown(true)
  const hide = () => setIsShown(false)
  return (
    <>
      <Button
        {...props}
        ref={button}
        data-disabled
        aria-disabled="true"
        aria-description={obstacle}
        onPointerEnter={show}
        onPointerLeave={hide}
        onFocus={show}
        onBlur={hide}
        onClick={(event) => event.preventDefault()}
      />
      {isShown && (
        <div
          ref={(box) => {
            box?.showPopover()
            if (box && button.current) place(button.current, box)
          }}
          popover="manual"
          role="tooltip"
          className="popover tooltip"
        >
          {obstacle}
        </div>
      )}
    </>
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
