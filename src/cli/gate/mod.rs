//! `ptmem gate`.

mod rules;
