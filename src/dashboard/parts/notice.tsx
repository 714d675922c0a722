/** @module A notice: what is wrong or worth knowing here, and what to do about it. */
import type { ReactNode } from 'react'
import { ToneShape } from './status.tsx'
import type { Tone } from './tone.ts'

interface NoticeProps {
  readonly tone?: Tone
  readonly title?: ReactNode
  /** Whether it is read out when it appears. */
  readonly isUrgent?: boolean
  /** What can be done, at its end. */
  readonly action?: ReactNode
  readonly children?: ReactNode
}

export const Notice = ({ tone = 'neutral', title, isUrgent = false, action, children }: NoticeProps) => (
  <div
    className={`notice notice-${tone}`}
    role={isUrgent ? 'alert' : 'group'}
    {...(typeof title === 'string' && { 'aria-label': title })}
  >
    <ToneShape tone={tone} />
    <div className="notice-text">
      {title !== undefined && <strong>{title}</strong>}
      {children !== undefined && <div>{children}</div>}
    </div>
    {action !== undefined && <div className="notice-action">{action}</div>}
  </div>
)
