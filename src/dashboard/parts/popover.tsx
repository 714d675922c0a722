/** @module Boxes that a button opens: a menu of actions, or anything else. The browser closes them and returns the focus. */
import { type KeyboardEvent, type ReactNode, useId, useRef, useState } from 'react'
import { type Role, useAllowed } from '../api/session.tsx'
import { IconDots } from './icons.ts'

interface PopoverProps {
  /** Names the box for screen readers. */
  readonly label: string
  /** Of the button; default: the label. */
  readonly buttonLabel?: string
  readonly button: ReactNode
  readonly className?: string
  readonly role?: 'dialog' | 'menu'
  children(close: () => void): ReactNode
}

const MARGIN_PX = 8
const GAP_PX = 4

/** Below the button, or above it where there is more room, and inside of the window. */
export function place(button: Element, box: HTMLElement): void {
  const { left, right, top, bottom } = button.getBoundingClientRect()
  const { offsetWidth: width, offsetHeight: height } = box
  const isRight = left + width > innerWidth - MARGIN_PX
  const isAbove = bottom + GAP_PX + height > innerHeight && top > innerHeight - bottom
  box.style.left = `${Math.max(MARGIN_PX, isRight ? right - width : left)}px`
  box.style.top = `${Math.max(MARGIN_PX, isAbove ? top - GAP_PX - height : bottom + GAP_PX)}px`
}

export function Popover({ label, buttonLabel, button, className = 'icon-button', role, children }: PopoverProps) {
  const id = useId()
  const target = useRef<HTMLButtonElement>(null)
  const box = useRef<HTMLDivElement>(null)
  const [isOpen, setIsOpen] = useState(false)
  const close = () => box.current?.hidePopover()
  return (
    <>
      <button
        ref={target}
        type="button"
        className={className}
        popoverTarget={id}
        aria-haspopup={role ?? 'dialog'}
        aria-expanded={isOpen}
        {...(buttonLabel !== undefined && { 'aria-label': buttonLabel })}
      >
        {button}
      </button>
      <div
        ref={box}
        id={id}
        popover="auto"
        className="popover"
        {...(isOpen && { role: role ?? 'dialog', 'aria-label': label })}
        onBeforeToggle={({ newState }) => setIsOpen(newState === 'open')}
        onToggle={({ newState }) => {
          if (newState !== 'open' || !target.current || !box.current) return
          place(target.current, box.current)
          box.current.querySelector<HTMLElement>('a, button:not(:disabled), input')?.focus()
        }}
      >
        {isOpen && children(close)}
      </div>
    </>
  )
}

export interface MenuAction {
  readonly label: string
  readonly isDangerous?: boolean
  readonly needs?: Role
  /** Why it is not possible, besides the role. */
  readonly reason?: string | undefined
  onClick(): void
}

/** What is seldom done with a thing, behind three dots. */
export const Menu = ({ label, actions }: { readonly label: string; readonly actions: readonly MenuAction[] }) => (
  <Popover label={label} buttonLabel={label} button={<IconDots size="1.125rem" aria-hidden />} role="menu">
    {(close) => (
      // biome-ignore lint/a11y/noStaticElementInteractions: the arrows move between the items, which have the focus
      <div role="presentation" onKeyDown={moveFocus}>
        {actions.map((action) => (
          <MenuItem key={action.label} action={action} close={close} />
        ))}
      </div>
    )}
  </Popover>
)

function MenuItem({ action, close }: { readonly action: MenuAction; close(): void }) {
  const { label, isDangerous = false, needs = 'viewer', reason, onClick } = action
  const obstacle = useAllowed(needs) ?? reason
  return (
    <button
      type="button"
      role="menuitem"
      className={`menu-item${isDangerous ? ' menu-danger' : ''}`}
      {...(obstacle === undefined
        ? {
            onClick: () => {
              close()
              onClick()
            },
          }
        : { 'aria-disabled': true, 'aria-description': obstacle, title: obstacle })}
    >
      {label}
    </button>
  )
}

/** The arrow keys, Home and End, among the items of a list. */
export function moveFocus(event: KeyboardEvent<HTMLElement>): void {
  const items = [...event.currentTarget.querySelectorAll<HTMLElement>('a, button, [role=option]')]
  const now = items.findIndex((item) => item.matches(':focus'))
  const next = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: items.length - 1 }[event.key]
  if (next === undefined) return
  event.preventDefault()
  items.at(next % items.length)?.focus()
}
