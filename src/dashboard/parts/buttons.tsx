/** @module Buttons, which say why they are not possible now. */
import { Button, type ButtonProps } from '@mantine/core'
import { type ReactNode, useRef, useState } from 'react'
import { type Stale, useChange } from '../api/data.ts'
import { type Role, useAllowed } from '../api/session.tsx'
import { FormError } from './form.tsx'
import { useSay } from './page.tsx'
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

interface RunButtonProps<Result> extends Omit<ActionProps, 'onClick'> {
  /** What is read again afterwards. */
  readonly refreshes?: readonly Stale[]
  /** What is said on the screen afterwards. */
  readonly done?: string
  run(): PromiseLike<Result>
  onDone?(result: Result): unknown
}

/** Does something without asking first. Its error is below the buttons that it is among. */
export function RunButton<Result>({ refreshes = [], done, run, onDone, ...button }: RunButtonProps<Result>) {
  const work = useChange(run, ...refreshes)
  const say = useSay()
  const finish = (result: Result) => {
    if (done !== undefined) say(done)
    onDone?.(result)
  }
  return (
    <>
      <ActionButton
        {...button}
        loading={work.isPending}
        onClick={() => work.mutate(undefined, { onSuccess: finish })}
      />
      {work.error && (
        <div className="button-error">
          <FormError error={work.error} />
        </div>
      )}
    </>
  )
}

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
