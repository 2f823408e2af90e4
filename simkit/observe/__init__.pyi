from .observables import Observer as Observer
